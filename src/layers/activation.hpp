#pragma once

#include "layers/composition.hpp"
#include "layers/drop_features.hpp"

namespace heliograph {

/// Bias, LayerNorm, ReLU, residual and dropout in one pass over the rows:
/// out = dropout(relu(norm(y + bias)) + residual).
class Activation final : public Step {
 public:
  struct Options {
    ValueId y = kNoValue;
    ValueId residual = kNoValue;  ///< As wide as y, and dense.
    bool layer_norm = true;
    DropoutMask dropout;
  };
  Activation(Declare& declare, const Options& options);

  void forward(const Pass& pass, RowRange rows) override;
  void backward(const Pass& pass) override;

 private:
  /// `statistics`: means in row 0, inverse standard deviations in row 1; empty without LayerNorm.
  NormAct norm_act(const Pass& pass, MatrixView statistics, RowRange rows) const;

  Options options_;
  ValueId out_;
  int bias_, gain_ = -1, shift_ = -1;
  Kept statistics_;
};

}  // namespace heliograph
