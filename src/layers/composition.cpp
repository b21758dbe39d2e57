#include "layers/composition.hpp"

#include "heliograph/error.hpp"

namespace heliograph {

ValueId Composition::add_value(Value value) {
  values_.push_back(std::move(value));
  return static_cast<ValueId>(values_.size()) - 1;
}

ValueId Composition::add_input(std::int64_t cols) {
  Value v;
  v.cols = cols;
  return add_value(std::move(v));
}

void Composition::set_logits(ValueId v) {
  logits_ = v;
  change(v).saved = true;
}

void Composition::refuse(const std::string& what) const {
  throw Error(ErrorCode::usage, "step " + name_ + " " + what);
}

void Composition::begin_step(std::string name, int layer) {
  name_ = std::move(name);
  layer_ = layer;
  parameters_before_ = parameters_.count();
  values_before_ = values_.size();
  gathers_.push_back(false);
  backward_.push_back(Backward::at_once);
}

ValueId Composition::end_step() {
  if (values_.size() != values_before_ + 1) refuse("does not write one value");
  Value& written = values_.back();
  written.has_gradient = parameters_.count() > parameters_before_;
  for (const Value& v : values_) {
    const bool read = !v.readers.empty() && v.readers.back() == steps() - 1;
    written.has_gradient = written.has_gradient || (read && v.has_gradient);
  }
  return static_cast<ValueId>(values_.size()) - 1;
}

MatrixView Pass::parameter(int i) const { return model_.parameters().value(i); }

MatrixView Pass::statistic(int i) const { return model_.parameters().statistic(i).value; }

bool Pass::has_gradient(ValueId v) const { return model_.value(v).has_gradient; }

GradientView Pass::parameter_gradient(int i) const { return model_.parameters().gradient(i); }

const Site& Pass::site(int id) const { return model_.sites()[static_cast<std::size_t>(id)]; }

void Declare::reads(ValueId v, bool in_backward) {
  Value& value = model_.change(v);
  if (value.gradient_in != kNoValue) model_.refuse("reads a value whose gradient is overwritten");
  if (!value.readers.empty() && value.readers.back() == step()) {
    model_.refuse("reads a value twice");
  }
  value.saved = value.saved || in_backward;
  value.readers.push_back(step());
}

ValueId Declare::writes(std::int64_t cols, bool nonnegative) {
  Value v;
  v.cols = cols;
  v.layer = layer();
  v.producer = step();
  v.nonnegative = nonnegative;
  return model_.add_value(std::move(v));
}

ValueId Declare::writes_dropped(ValueId input) {
  const ValueId v = writes(value(input).cols, value(input).nonnegative);
  model_.change(v).drops_from = input;
  return v;
}

void Declare::gathers() { model_.gathers_.back() = true; }

void Declare::overwrites_gradient(ValueId v) {
  if (value(v).readers.size() > 1) {
    model_.refuse("overwrites a gradient to which other steps contribute");
  }
  model_.change(v).gradient_in = static_cast<ValueId>(model_.values_.size()) - 1;
}

int Declare::parameter(std::string_view name, std::int64_t rows, std::int64_t cols,
                       ParameterKind kind) {
  const std::string full = model_.name_ + "." + std::string(name);
  for (int i = 0; i < model_.parameters_.count(); ++i) {
    if (model_.parameters_.name(i) == full) model_.refuse("declares a second " + full);
  }
  return model_.parameters_.declare(full, rows, cols, kind);
}

int Declare::statistic(std::string_view name, std::int64_t cols, float initial) {
  return model_.parameters_.declare_statistic(model_.name_ + "." + std::string(name), cols,
                                              initial);
}

int Declare::site(Direction direction, std::int64_t cols, bool nonnegative, std::int64_t exact_cols,
                  int groups) {
  const std::string name =
      model_.name_ + (direction == Direction::forward ? ".forward" : ".backward");
  Site s{static_cast<int>(model_.sites_.size()),
         layer(),
         direction,
         name,
         0,
         cols,
         exact_cols,
         nonnegative,
         groups};
  if (groups < 1 || cols % groups != 0) {
    model_.refuse("sends " + std::to_string(cols) + " columns, which do not form " +
                  std::to_string(groups) + " equal groups");
  }
  // A layer's first exchange has the layer's key; bits 16 and up number the layer's other
  // exchanges.
  std::uint64_t earlier = 0;
  for (const Site& other : model_.sites_) {
    if (other.name == name) model_.refuse("declares a second " + name);
    if (other.layer == s.layer && other.direction == direction && !other.partial_sums) ++earlier;
  }
  s.key = site_key(s.layer, direction) + (earlier << 16);
  const int id = s.id;
  if (!model_.partial_sums_) {
    model_.sites_.push_back(std::move(s));
    return id;
  }
  auto sums = std::make_shared<Site>(s);
  sums->id = id + 1;
  sums->name += ".sums";
  sums->key += std::uint64_t{1} << 36;
  sums->partial_sums = true;
  s.sums = sums;
  model_.sites_.push_back(std::move(s));
  model_.sites_.push_back(*sums);
  return id;
}

void Declare::sends(int site, ValueId v) {
  Site& s = model_.sites_[static_cast<std::size_t>(site)];
  const DropoutMask& dropped = value(v).dropped;
  if (s.direction == Direction::forward) {
    if (s.nonnegative) s.dropped = dropped;
  } else if (s.sums != nullptr) {
    auto sums = std::make_shared<Site>(*s.sums);
    sums->dropped = dropped;
    s.sums = sums;
    model_.sites_[static_cast<std::size_t>(sums->id)] = *sums;
  }
}

Scratch Declare::scratch(std::int64_t cols, Uses uses, std::int64_t value_bytes, MatrixRows rows) {
  model_.scratch_.push_back({step(), cols, value_bytes, uses, rows});
  return {static_cast<int>(model_.scratch_.size()) - 1};
}

SumScratch Declare::sum_scratch(std::int64_t cols, bool backward) {
  SumScratch s;
  if (model_.fp64_sums_) s.accumulator = scratch(cols, {true, backward, true}, sizeof(double));
  if (model_.bf16_rows_)
    s.bf16_rows = scratch(cols, {true, backward, false}, sizeof(std::uint16_t));
  return s;
}

Saved Declare::saves(std::int64_t cols, bool by_column, MatrixRows of) {
  model_.saved_.push_back({step(), cols, by_column, 0, of});
  return {static_cast<int>(model_.saved_.size()) - 1};
}

Saved Declare::saves_rows(std::int64_t rows, std::int64_t cols) {
  model_.saved_.push_back({step(), cols, false, rows});
  return {static_cast<int>(model_.saved_.size()) - 1};
}

}  // namespace heliograph
