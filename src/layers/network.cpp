#include "layers/network.hpp"

#include <algorithm>
#include <cmath>

#include "core/host_copy.hpp"
#include "heliograph/error.hpp"

namespace heliograph {
namespace {

/// Makes the kernels' products exact while it lives.
class ExactProducts {
 public:
  explicit ExactProducts(Kernels& kernels) : kernels_(kernels) { kernels_.set_exact(true); }
  ~ExactProducts() { kernels_.set_exact(false); }
  ExactProducts(const ExactProducts&) = delete;
  ExactProducts& operator=(const ExactProducts&) = delete;

 private:
  Kernels& kernels_;
};

}  // namespace

Network::Network(const ModelOptions& options, const ModelInput& input, std::int64_t classes,
                 std::uint64_t seed, const PassRows& rows, Kernels& kernels, MemoryAccount* account)
    : composition_(compose(options, input, classes, kernels.reproducible(), rows.partial_sums)),
      rows_(rows),
      kernels_(kernels),
      memory_(composition_, rows, input.values(), account) {
  parameters().allocate(kernels.reproducible(), account);
  parameters().initialise(seed, kernels);
  blocks_.reserve(static_cast<std::size_t>(rows.blocks));
  small_.reserve(static_cast<std::size_t>(parameters().count()));
  open_steps_.reserve(static_cast<std::size_t>(composition_.steps()));
}

void Network::begin(PassPart part, std::int64_t rows, std::int64_t halo) {
  memory_.begin(part, rows, halo);
  blocks_.clear();
  std::int64_t size = std::max<std::int64_t>(1, (rows + rows_.blocks - 1) / rows_.blocks);
  if (rows_.blocks > 1) size = round_up(size, kRowTile);
  for (std::int64_t at = 0; at < rows; at += size)
    blocks_.push_back({at, std::min(rows, at + size)});
  if (blocks_.empty()) blocks_.push_back({0, 0});
}

ConstMatrixView Network::run_forward(PassPart part, const PassContext& context,
                                     const GraphOperator& graph, const ModelInput& input,
                                     std::vector<float>* embeddings) {
  begin(part, graph.rows(), graph.halo_rows());
  ValueId v = 0;
  for (const FeatureView& view : input.values()) memory_.set(v++, view);
  const auto ignore = [](int, std::int64_t, std::int64_t, bool) {};
  const Pass pass(context, graph, memory_, composition_, ignore);
  for (const Stretch& s : memory_.stretches()) {
    if (s.first < s.end && composition_.gathers(s.first)) composition_.step(s.first).gather(pass);
    for (const RowRange rows : blocks_) {
      for (int i = s.first; i < s.end; ++i) composition_.step(i).forward(pass, rows);
      if (s.end < composition_.steps()) composition_.step(s.end).offer(pass, rows);
    }
    // The last layer still needs its input here; later, other matrices may take its memory.
    const ValueId kept = composition_.embeddings();
    if (embeddings == nullptr || kept == kNoValue) continue;
    const int producer = composition_.value(kept).producer;
    if (producer < s.first || producer >= s.end) continue;
    const HostCopy host(memory_.read(kept).dense, kernels_.device(), MemoryUse::evaluation,
                        nullptr);
    *embeddings = values_of(host.view());
  }
  return pass.read(composition_.logits()).dense;
}

ConstMatrixView Network::forward(const PassContext& context, const GraphOperator& graph,
                                 const ModelInput& input) {
  return run_forward(PassPart::forward, context, graph, input, nullptr);
}

ConstMatrixView Network::infer(const PassContext& context, const GraphOperator& graph,
                               const ModelInput& input, std::vector<float>* embeddings) {
  if (graph.rows() > rows_.most || graph.halo_rows() > rows_.most_halo)
    throw Error(ErrorCode::usage,
                "inference over more rows or halo rows than the model has memory for");
  const ExactProducts exact(kernels_);
  return run_forward(PassPart::inference, context, graph, input, embeddings);
}

std::int64_t Network::embedding_cols() const {
  const ValueId kept = composition_.embeddings();
  return kept == kNoValue ? 0 : composition_.value(kept).cols;
}

MatrixView Network::logit_gradient() {
  memory_.begin(PassPart::backward, rows_.training, rows_.training_halo);
  return memory_.gradient(composition_.logits());
}

void Network::backward(const PassContext& context, const GraphOperator& graph,
                       FunctionRef<void(std::int64_t begin, std::int64_t end)> complete,
                       FunctionRef<void()> release) {
  begin(PassPart::backward, rows_.training, rows_.training_halo);
  const auto flush = [&] {
    for (const auto& [begin, end] : small_) complete(begin, end);
    small_.clear();
  };
  const auto announce = [&](int parameter, std::int64_t first_row, std::int64_t end_row,
                            bool values_needed) {
    const GradientView g = parameters().gradient(parameter);
    const std::int64_t at = parameters().offset(parameter);
    std::int64_t begin = at + first_row * g.cols;
    std::int64_t end =
        end_row < g.rows ? at + end_row * g.cols : parameters().offset(parameter + 1);
    std::erase_if(small_, [&](const auto& range) {
      if (range.first != end && range.second != begin) return false;
      begin = std::min(begin, range.first);
      end = std::max(end, range.second);
      return true;
    });
    if (end - begin < kFewestAnnounced) {
      small_.emplace_back(begin, end);
    } else {
      complete(begin, end);
      if (!values_needed) release();
    }
  };
  Pass pass(context, graph, memory_, composition_, announce);
  // Steps end in their order whatever the number of blocks: ranks match sums of gradients by it,
  // and checkpoints hold it.
  std::vector<int>& open = open_steps_;
  const auto make_rows = [&](RowRange rows) {
    for (const int i : open) {
      pass.step_ = i;
      composition_.step(i).backward_rows(pass, rows);
      memory_.add_parts(i, rows, kernels_);
    }
  };
  const auto layer_of = [&](int step) {
    return composition_.value(composition_.output(step)).layer;
  };
  const auto end_steps = [&] {
    if (open.empty()) return;
    for (const int i : open) {
      pass.step_ = i;
      composition_.step(i).end_backward(pass);
      if (i > 0 && layer_of(i - 1) < layer_of(i)) flush();
    }
    open.clear();
    release();
  };
  const auto finish = [&] {
    make_rows({0, rows_.training});
    end_steps();
  };
  for (int i = composition_.steps() - 1; i >= 0; --i) {
    if (!composition_.value(composition_.output(i)).has_gradient) continue;
    Step& step = composition_.step(i);
    const Composition::Backward how = composition_.backward(i);
    if (how == Composition::Backward::at_once) finish();
    if (how == Composition::Backward::pulls) {
      for (const RowRange rows : blocks_) {
        make_rows(rows);
        pass.step_ = i;
        step.backward_offer(pass, rows);
      }
      end_steps();
    }
    pass.step_ = i;
    step.backward(pass);
    open.push_back(i);
    // On every rank alike, also where a rank has rows for one block only.
    if (how == Composition::Backward::at_once || rows_.blocks == 1) finish();
  }
  finish();
  flush();
  release();
}

std::int64_t Network::widest_bytes() const {
  std::int64_t values = 0;
  const auto add = [&](std::int64_t rows, std::int64_t cols) {
    values = std::max(values, rows * padded_stride(cols));
  };
  for (const Composition::Value& v : composition_.values()) {
    if (v.producer >= 0 && v.drops_from == kNoValue) add(rows_.training, v.cols);
  }
  for (const Composition::SavedMatrix& m : composition_.saved()) {
    add(rows_.training + (m.of == MatrixRows::all ? rows_.training_halo : 0), m.cols);
  }
  return values * static_cast<std::int64_t>(sizeof(float));
}

std::optional<Network::NonFinite> Network::find_non_finite() {
  memory_.begin(PassPart::forward, rows_.training, rows_.training_halo);
  for (ValueId v = 0; v < static_cast<ValueId>(composition_.values().size()); ++v) {
    const Composition::Value& value = composition_.value(v);
    if (value.producer < 0 || value.drops_from != kNoValue) continue;
    const auto find = [&](ConstMatrixView rows) {
      const HostCopy host(rows, kernels_.device(), MemoryUse::workspace, nullptr);
      return find_non_finite(value.layer, host.view());
    };
    // A product that attention saves has the row of the node itself; outputs also mix neighbours'.
    for (int i = 0; i < static_cast<int>(composition_.saved().size()); ++i) {
      const Composition::SavedMatrix& m = composition_.saved()[static_cast<std::size_t>(i)];
      if (m.step != value.producer || m.by_column || m.rows > 0) continue;
      if (const auto found = find(memory_.saved(Saved{i}).row_range(0, rows_.training)))
        return found;
    }
    if (!value.saved) continue;
    if (const auto found = find(memory_.saved(v).dense)) return found;
  }
  return std::nullopt;
}

std::optional<Network::NonFinite> Network::find_non_finite(ConstMatrixView y) const {
  return find_non_finite(composition_.value(composition_.logits()).layer, y);
}

std::optional<Network::NonFinite> Network::find_non_finite(int layer, ConstMatrixView y) {
  for (std::int64_t r = 0; r < y.rows; ++r) {
    const float* row = y.row(r);
    if (!std::all_of(row, row + y.cols, [](float v) { return std::isfinite(v); })) {
      return NonFinite{layer, r};
    }
  }
  return std::nullopt;
}

}  // namespace heliograph
