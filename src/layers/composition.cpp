#include "layers/composition.hpp"

#include <algorithm>

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
  change(v).kept = true;
}

void Composition::begin_step(std::string name, int layer) {
  name_ = std::move(name);
  layer_ = layer;
  parameters_before_ = parameters_.count();
  gathers_.push_back(false);
  reads_.emplace_back();
}

ValueId Composition::end_step() {
  Value& written = values_.back();
  written.has_gradient = parameters_.count() > parameters_before_;
  for (const ValueId v : reads_.back()) {
    written.has_gradient = written.has_gradient || value(v).has_gradient;
  }
  return static_cast<ValueId>(values_.size()) - 1;
}

MatrixView Pass::parameter(int i) const { return model_.parameters().value(i); }

GradientView Pass::parameter_gradient(int i) const { return model_.parameters().gradient(i); }

const Site& Pass::site(int id) const { return model_.sites()[static_cast<std::size_t>(id)]; }

void Declare::reads(ValueId v, bool in_backward) {
  Value& value = model_.change(v);
  value.kept = value.kept || in_backward;
  value.readers.push_back(step());
  model_.reads_.back().push_back(v);
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
    throw Error(ErrorCode::usage,
                "step " + model_.name_ + ": a gradient that others read too cannot be overwritten");
  }
  model_.change(v).gradient_in = static_cast<ValueId>(model_.values_.size()) - 1;
}

int Declare::parameter(std::string_view name, std::int64_t rows, std::int64_t cols,
                       ParameterKind kind) {
  return model_.parameters_.declare(model_.name_ + "." + std::string(name), rows, cols, kind);
}

int Declare::site(Direction direction, std::int64_t cols, bool nonnegative,
                  std::int64_t exact_cols) {
  Site s;
  s.id = static_cast<int>(model_.sites_.size());
  s.layer = layer();
  s.direction = direction;
  s.name = model_.name_ + (direction == Direction::forward ? ".forward" : ".backward");
  s.cols = cols;
  s.exact_cols = exact_cols;
  s.nonnegative = nonnegative;
  // The first exchange of a layer has the layer's key; those that follow in it count above it.
  const auto earlier = std::count_if(
      model_.sites_.begin(), model_.sites_.end(),
      [&](const Site& other) { return other.layer == s.layer && other.direction == direction; });
  s.key = place_key(s.layer, direction) + (static_cast<std::uint64_t>(earlier) << 16);
  model_.sites_.push_back(std::move(s));
  return model_.sites_.back().id;
}

Scratch Declare::scratch(std::int64_t cols, Uses uses, std::int64_t value_bytes) {
  model_.scratch_.push_back({step(), cols, value_bytes, uses});
  return {static_cast<int>(model_.scratch_.size()) - 1};
}

Kept Declare::keeps(std::int64_t cols, bool by_column) {
  model_.kept_.push_back({step(), cols, by_column});
  return {static_cast<int>(model_.kept_.size()) - 1};
}

}  // namespace heliograph
