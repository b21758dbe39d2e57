#pragma once

#include <memory>
#include <optional>
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

  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }
  std::int64_t classes() const { return classes_; }

  /// Training forward: returns the logits (rows x classes), valid until the next forward.
  ConstMatrixView forward(const PassContext& pass, const GraphOperator& a, const ModelInput& input);

  /// Where the loss writes dL/dlogits before `backward`; overwritten by it.
  MatrixView logit_gradient() const;

  /// Fills every parameter's gradient (overwriting). Must follow `forward`.
  void backward(const PassContext& pass, const GraphOperator& a);

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
    Matrix y;       ///< The convolution's output, rows x out.
    Matrix output;  ///< The next layer's input, rows x out. Last layer: unused.
    Buffer mean, rstd;
    bool residual = false;
  };

  NormAct norm_act(int layer, float* mean, float* rstd) const;
  Dropout input_dropout(const PassContext& pass, const GraphOperator& a, int layer,
                        Direction part) const;
  int last() const { return static_cast<int>(convolutions_.size()) - 1; }

  ModelOptions options_;
  std::int64_t classes_;
  std::int64_t rows_;
  Kernels& kernels_;
  MemoryAccount* account_;
  Parameters parameters_;
  std::vector<Convolution> convolutions_;
  std::vector<Hidden> hidden_;
  std::unique_ptr<Workspace> workspace_;
  Matrix residual_gradient_;
  Buffer infer_statistics_;
  DroppedFeatures dropped_x_, dropped_aggregated_;
  FeatureView first_x_;
  std::optional<FeatureView> first_aggregated_;
};

}  // namespace heliograph
