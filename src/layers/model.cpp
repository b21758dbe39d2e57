#include "layers/model.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/host_copy.hpp"
#include "core/noise.hpp"

namespace heliograph {
namespace {

/// Products are exact as long as it lives.
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

Model::Model(const ModelOptions& options, std::int64_t features, bool sparse_features,
             std::int64_t classes, std::uint64_t seed, std::int64_t rows,
             std::int64_t workspace_rows, Kernels& kernels, MemoryAccount* account)
    : options_(options), classes_(classes), rows_(rows), kernels_(kernels) {
  reads_features_ = reads_features(options, features, sparse_features);
  std::int64_t in = features;
  std::int64_t width = classes;
  bool nonnegative = false;
  for (int l = 0; l < options.layers; ++l) {
    const bool is_last = l == options.layers - 1;
    const std::int64_t out = is_last ? classes : options.hidden;
    const bool precomputed = l == 0 && options.precompute;
    Convolution::Shape shape{l, in, out, options.kind, false, nonnegative};
    shape.transform_first =
        !precomputed && (options.transform_first && (out < in || (l == 0 && sparse_features)));
    convolutions_.emplace_back(shape, parameters_);
    const std::string prefix = "layers." + std::to_string(l) + ".";
    Hidden h;
    h.bias = parameters_.declare(prefix + "bias", 1, out, ParameterKind::bias);
    if (!is_last) {
      if (options.norm == NormLayer::layer) {
        h.gain = parameters_.declare(prefix + "norm_gain", 1, out, ParameterKind::gain);
        h.shift = parameters_.declare(prefix + "norm_shift", 1, out, ParameterKind::bias);
      }
      h.residual = options.residual && in == out && !(l == 0 && sparse_features);
      nonnegative = !h.residual || nonnegative;
    }
    hidden_.push_back(std::move(h));
    width = std::max(width, l == 0 ? out : std::max(in, out));
    if (l == 0 && !precomputed && !shape.transform_first) width = std::max(width, in);
    in = out;
  }
  parameters_.allocate(kernels.reproducible(), account);
  parameters_.initialise(seed, kernels);

  bool any_residual = false;
  for (int l = 0; l < last(); ++l) {
    const Hidden& h = hidden_[static_cast<std::size_t>(l)];
    any_residual = any_residual || (h.residual && l > 0);
  }
  activations_ = Buffer(lay_out(nullptr), MemoryRoom::activations, account);
  lay_out(activations_.data());
  if (any_residual) {
    residual_gradient_ = Matrix(rows, options.hidden, MemoryRoom::gradients, account);
  }
  widest_ = width;
  workspace_ = std::make_unique<Workspace>(workspace_rows, width, kernels.reproducible(), account);
  if (options.aggregate_storage == RowStorage::bf16) {
    std::int64_t most = 0;
    for (const HaloRows& e : exchanges()) most = std::max(most, e.cols);
    const auto values = static_cast<std::size_t>(rows * padded_stride<std::uint16_t>(most));
    stored_rows_ = Buffer(values * sizeof(std::uint16_t), MemoryRoom::workspace, account);
  }
  infer_statistics_ = Buffer(2 * static_cast<std::size_t>(workspace_rows) * sizeof(float),
                             MemoryRoom::workspace, account);
}

bool Model::reads_features(const ModelOptions& options, std::int64_t features,
                           bool sparse_features) {
  const bool runs_past =
      options.residual && options.layers > 1 && features == options.hidden && !sparse_features;
  return options.kind != ModelKind::gcn || !options.precompute || runs_past;
}

std::size_t Model::lay_out(std::byte* base) {
  std::size_t end = 0;
  const auto cut = [&](std::int64_t rows, std::int64_t cols) {
    const std::size_t begin = end;
    const std::int64_t stride = padded_stride(cols);
    end += static_cast<std::size_t>(padded_stride(rows * stride)) * sizeof(float);
    auto* data = base == nullptr ? nullptr : reinterpret_cast<float*>(base + begin);
    return MatrixView{data, rows, cols, stride};
  };
  for (int l = 0; l <= last(); ++l) {
    const auto i = static_cast<std::size_t>(l);
    Convolution& convolution = convolutions_[i];
    Hidden& h = hidden_[i];
    const std::int64_t out = convolution.shape().out;
    if (convolution.keeps_aggregated(l == 0 && options_.precompute)) {
      convolution.set_aggregated(cut(rows_, convolution.shape().in));
    }
    h.y = cut(rows_, out);
    if (l == last()) break;
    if (convolutions_[i + 1].backward_reads_input()) h.output = cut(rows_, out);
    if (h.gain >= 0) {
      h.mean = cut(1, rows_).data;
      h.rstd = cut(1, rows_).data;
    }
  }
  return end;
}

void Model::allocate_input_dropout(const ModelInput& input, MemoryAccount* account) {
  if (input_dropout_threshold() == 0) return;
  if (reads_features_) dropped_x_.allocate(input.x, account);
  if (input.aggregated) dropped_aggregated_.allocate(*input.aggregated, account);
}

std::vector<HaloRows> Model::exchanges() const {
  std::vector<HaloRows> all;
  for (int l = options_.precompute ? 1 : 0; l <= last(); ++l) {
    const Convolution::Shape& shape = convolutions_[static_cast<std::size_t>(l)].shape();
    const std::int64_t cols = shape.transform_first ? shape.out : shape.in;
    all.push_back({l, Direction::forward, cols, !shape.transform_first && shape.nonnegative_input});
    // Below the first layer no gradient flows, but its weights' own may need A^T.
    if (l > 0 || shape.transform_first) all.push_back({l, Direction::backward, cols, false});
  }
  return all;
}

MatrixView Model::output_of(int layer) const {
  const auto i = static_cast<std::size_t>(layer);
  if (hidden_[i].output.data != nullptr) return hidden_[i].output;
  return workspace_->matrix(layer % 2 == 0 ? 0 : 2, rows_, convolutions_[i].shape().out);
}

PassContext Model::training(const PassContext& pass) const {
  PassContext stored = pass;
  if (stored_rows_.size() != 0) stored.stored_rows = stored_rows_.as<std::uint16_t>().data();
  return stored;
}

NormAct Model::norm_act(int layer, float* mean, float* rstd) const {
  const Hidden& h = hidden_[static_cast<std::size_t>(layer)];
  NormAct p;
  p.bias = parameters_.value(h.bias).data;
  if (h.gain >= 0) {
    p.gain = parameters_.value(h.gain).data;
    p.shift = parameters_.value(h.shift).data;
    p.mean = mean;
    p.rstd = rstd;
  }
  return p;
}

const float* Model::last_bias(int layer) const {
  return layer == last() ? parameters_.value(hidden_.back().bias).data : nullptr;
}

std::uint32_t Model::input_dropout_threshold() const {
  return static_cast<std::uint32_t>(std::lround(options_.dropout * 65536.0F));
}

Dropout Model::input_dropout(const PassContext& pass, const GraphOperator& a, int layer,
                             Direction part) const {
  Dropout d;
  d.threshold = input_dropout_threshold();
  d.stream = stream_key(pass.seed, Purpose::dropout, pass.epoch, layer, part);
  d.global_ids = a.shard().global_ids();
  return d;
}

ConstMatrixView Model::forward(const PassContext& caller, const GraphOperator& a,
                               const ModelInput& input) {
  const PassContext pass = training(caller);
  workspace_->reset();  // Each pass asks its device for what the last one asked for.
  // The aggregated copy has its own mask: it is another input of the first layer. GCN reads that
  // one alone, unless the features also run past the layer.
  first_x_ = input.x;
  if (reads_features_) {
    first_x_ = dropped_x_.apply(input.x, input_dropout(pass, a, 0, Direction::forward), kernels_);
  }
  first_aggregated_.reset();
  if (input.aggregated) {
    first_aggregated_ = dropped_aggregated_.apply(
        *input.aggregated, input_dropout(pass, a, 0, Direction::backward), kernels_);
  }
  FeatureView x = first_x_;
  for (int l = 0; l <= last(); ++l) {
    const auto i = static_cast<std::size_t>(l);
    Hidden& h = hidden_[i];
    const FeatureView* aggregated = l == 0 && first_aggregated_ ? &*first_aggregated_ : nullptr;
    convolutions_[i].forward(pass, a, parameters_, x, aggregated, *workspace_, last_bias(l), h.y);
    if (l == last()) break;
    NormAct p = norm_act(l, h.mean, h.rstd);
    p.dropout = input_dropout(pass, a, l + 1, Direction::forward);
    const MatrixView output = output_of(l);
    kernels_.norm_act_forward(h.y, p, h.residual ? x.dense : ConstMatrixView{}, output);
    x = FeatureView::of(output);
  }
  return hidden_.back().y;
}

MatrixView Model::logit_gradient() const { return workspace_->matrix(0, rows_, classes_); }

void Model::backward(const PassContext& caller, const GraphOperator& a,
                     FunctionRef<void(std::int64_t begin, std::int64_t end)> complete) {
  const PassContext pass = training(caller);
  const Hidden& top = hidden_.back();
  kernels_.column_sums(logit_gradient(), parameters_.gradient(top.bias));
  for (int l = last(); l >= 0; --l) {
    const auto i = static_cast<std::size_t>(l);
    const Convolution& convolution = convolutions_[i];
    const MatrixView dy = workspace_->matrix(0, rows_, convolution.shape().out);
    const bool residual = hidden_[i].residual && l > 0;
    if (l < last()) {
      const Hidden& h = hidden_[i];
      NormAct p = norm_act(l, h.mean, h.rstd);
      p.dropout = input_dropout(pass, a, l + 1, Direction::forward);
      NormActGradients g;
      g.bias = parameters_.gradient(h.bias);
      if (h.gain >= 0) {
        g.gain = parameters_.gradient(h.gain);
        g.shift = parameters_.gradient(h.shift);
      }
      kernels_.norm_act_backward(h.y, p, dy, residual ? residual_gradient_.view() : MatrixView{},
                                 g);
    }
    const FeatureView x = l == 0 ? first_x_ : FeatureView::of(hidden_[i - 1].output);
    const FeatureView* aggregated = l == 0 && first_aggregated_ ? &*first_aggregated_ : nullptr;
    convolution.backward(pass, a, parameters_, x, aggregated, *workspace_, dy, l > 0,
                         [&](int weight, std::int64_t begin, std::int64_t end) {
                           const GradientView g = parameters_.gradient(weight);
                           const std::int64_t at = parameters_.offset(weight);
                           // Behind the layer's last weight lie bias and norm, whole by now.
                           const Hidden& h = hidden_[i];
                           const bool is_last = weight + 1 == h.bias;
                           const int next = is_last ? std::max(h.bias, h.shift) + 1 : weight + 1;
                           complete(at + begin * g.cols,
                                    end < g.rows ? at + end * g.cols : parameters_.offset(next));
                         });
    if (l == 0) break;
    workspace_->swap(0, 2);
    if (residual) {
      kernels_.add(workspace_->matrix(0, rows_, convolution.shape().in), residual_gradient_.view());
    }
  }
}

ConstMatrixView Model::infer(const PassContext& pass, const GraphOperator& a,
                             const ModelInput& input) {
  const ExactProducts exact(kernels_);
  const std::int64_t rows = a.rows();
  const auto statistics = infer_statistics_.as<float>();
  FeatureView x = input.x;
  for (int l = 0; l <= last(); ++l) {
    const auto i = static_cast<std::size_t>(l);
    Convolution& convolution = convolutions_[i];
    const Hidden& h = hidden_[i];
    const MatrixView y = workspace_->matrix(2, rows, convolution.shape().out);
    const FeatureView* aggregated = l == 0 && input.aggregated ? &*input.aggregated : nullptr;
    convolution.infer(pass, a, parameters_, x, aggregated, *workspace_, last_bias(l), y);
    if (l == last()) return y;
    const NormAct p = norm_act(l, statistics.data(), statistics.data() + statistics.size() / 2);
    const MatrixView out = workspace_->matrix(1, rows, convolution.shape().out);
    kernels_.norm_act_forward(y, p, h.residual ? x.dense : ConstMatrixView{}, out);
    workspace_->swap(0, 1);
    x = FeatureView::of(out);
  }
  return {};
}

std::optional<Model::NonFinite> Model::find_non_finite() const {
  for (int l = 0; l <= last(); ++l) {
    const ConstMatrixView y = hidden_[static_cast<std::size_t>(l)].y;
    const HostCopy host(y, kernels_.device(), MemoryRoom::workspace, nullptr);
    const auto found = find_non_finite(l, host.view());
    if (found) return found;
  }
  return std::nullopt;
}

std::optional<Model::NonFinite> Model::find_non_finite(int layer, ConstMatrixView y) {
  for (std::int64_t r = 0; r < y.rows; ++r) {
    const float* row = y.row(r);
    if (!std::all_of(row, row + y.cols, [](float v) { return std::isfinite(v); })) {
      return NonFinite{layer, r};
    }
  }
  return std::nullopt;
}

}  // namespace heliograph
