#pragma once

#include "layers/composition.hpp"
#include "layers/drop_features.hpp"

namespace heliograph {

/// Bias, LayerNorm (Ba et al., 2016), ReLU, residual and dropout (Srivastava et al., 2014) in one
/// pass over the rows: out = dropout(relu(norm(y + bias)) + residual).
class Activation final : public Step {
 public:
  struct Options {
    ValueId y = kNoValue;
    ValueId residual = kNoValue;  ///< A dense value with as many columns as y, or none.
    bool layer_norm = true;
    DropoutMask dropout;
  };
  Activation(Declare& declare, const Options& options);

  void forward(const Pass& pass, RowRange rows) override;
  void backward(const Pass& pass) override;

 private:
  /// Arguments of the kernels for these rows. `statistics` has each row's mean in its row 0 and the
  /// inverse standard deviation in its row 1; it is empty without LayerNorm.
  NormAct norm_act(const Pass& pass, MatrixView statistics, RowRange rows) const;

  Options options_;
  ValueId out_;
  int bias_, gain_ = -1, shift_ = -1;
  Saved statistics_;
};

}  // namespace heliograph
