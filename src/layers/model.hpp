#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "layers/convolution.hpp"

namespace heliograph {

/// What the first layer reads: the features, and their first aggregation where precomputed.
struct ModelInput {
  FeatureView x;
  std::optional<FeatureView> aggregated;
};

/// A stack of graph convolutions. Hidden layers: convolution, bias, LayerNorm, ReLU, residual;
/// the last: convolution and bias. Dropout acts on every layer's input, so what travels between
/// ranks is the dropped input; a precomputed first aggregation is dropped after it was made.
/// Holds the activations of one training pass; weights live in `parameters()`.
class Model {
 public:
  /// `rows`: inner nodes of the training shard. `workspace_rows`: the most rows of any pass.
  Model(const ModelOptions& options, std::int64_t features, bool sparse_features,
        std::int64_t classes, std::uint64_t seed, std::int64_t rows, std::int64_t workspace_rows,
        Kernels& kernels, MemoryAccount* account);

  /// What a run allocates for an input of this shape (and entries) before its first `forward`.
  void allocate_input_dropout(const ModelInput& input, MemoryAccount* account);

  /// Whether a model with these options reads the features themselves, not only their first
  /// aggregation.
  static bool reads_features(const ModelOptions& options, std::int64_t features,
                             bool sparse_features);
  /// What a training pass exchanges with other ranks, in no order.
  std::vector<HaloRows> exchanges() const;

  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }
  std::int64_t classes() const { return classes_; }

  /// Training forward: returns the logits (rows x classes), valid until the next forward.
  ConstMatrixView forward(const PassContext& pass, const GraphOperator& a, const ModelInput& input);

  /// Where the loss writes dL/dlogits before `backward`; overwritten by it.
  MatrixView logit_gradient() const;

  /// Where a training pass keeps its activations: anybody's between two training steps.
  std::span<std::byte> idle_memory() const { return activations_.as<std::byte>(); }

  /// Bytes of the widest matrix that lies between two kernels of a training pass.
  std::int64_t widest_bytes() const {
    return rows_ * padded_stride(widest_) * static_cast<std::int64_t>(sizeof(float));
  }

  /// Fills every parameter's gradient (overwriting). Must follow `forward`.
  /// complete(begin, end): these values of the flat gradients are whole. Called as soon as they
  /// are, last layer first, while the pass goes on; together the calls cover the flat gradients
  /// once, in an order that depends on the options alone.
  void backward(const PassContext& pass, const GraphOperator& a,
                FunctionRef<void(std::int64_t begin, std::int64_t end)> complete);

  /// Inference without dropout on any operator; returns logits in the workspace, valid until the
  /// next pass. The operator's rows must not exceed `workspace_rows`.
  ConstMatrixView infer(const PassContext& pass, const GraphOperator& a, const ModelInput& input);

  struct NonFinite {
    int layer;
    std::int64_t row;
  };
  /// The first activation of the last forward that is NaN or Inf; for the error message.
  std::optional<NonFinite> find_non_finite() const;
  /// The same in `y`, the output of `layer`.
  static std::optional<NonFinite> find_non_finite(int layer, ConstMatrixView y);

 private:
  struct Hidden {
    int bias = -1, gain = -1, shift = -1;
    MatrixView y;  ///< The convolution's output, rows x out.
    /// The next layer's input, rows x out, where its backward reads it; else in the workspace.
    MatrixView output;
    float* mean = nullptr;
    float* rstd = nullptr;
    bool residual = false;
  };

  /// Cuts the activations from memory at `base`. Returns their bytes.
  std::size_t lay_out(std::byte* base);
  /// Where `layer`'s output goes: two in turn, where the workspace takes them.
  MatrixView output_of(int layer) const;
  /// The training pass, with what it stores rows in.
  PassContext training(const PassContext& pass) const;
  NormAct norm_act(int layer, float* mean, float* rstd) const;
  /// What the convolution adds itself: of a hidden layer, norm_act adds the bias.
  const float* last_bias(int layer) const;
  std::uint32_t input_dropout_threshold() const;
  Dropout input_dropout(const PassContext& pass, const GraphOperator& a, int layer,
                        Direction part) const;
  int last() const { return static_cast<int>(convolutions_.size()) - 1; }

  ModelOptions options_;
  std::int64_t classes_;
  std::int64_t rows_;
  Kernels& kernels_;
  Parameters parameters_;
  std::vector<Convolution> convolutions_;
  std::vector<Hidden> hidden_;
  bool reads_features_ = true;
  std::int64_t widest_ = 0;  ///< Columns.
  Buffer activations_;
  std::unique_ptr<Workspace> workspace_;
  Matrix residual_gradient_;
  Buffer stored_rows_;
  Buffer infer_statistics_;
  DroppedFeatures dropped_x_, dropped_aggregated_;
  FeatureView first_x_;
  std::optional<FeatureView> first_aggregated_;
};

}  // namespace heliograph
