#pragma once

#include <vector>

#include "heliograph/options.hpp"
#include "layers/composition.hpp"
#include "layers/drop.hpp"

namespace heliograph {

/// Bias, normalisation (LayerNorm: Ba et al., 2016; BatchNorm: Ioffe and Szegedy, 2015), activation
/// function, residual and dropout (Srivastava et al., 2014) in one pass over the rows:
/// out = dropout(function(norm(y + bias)) + residual).
///
/// BatchNorm normalises by mean and variance over the rows of all ranks, which it sums in fp64 in
/// both directions. Inference uses running values (momentum 0.1; unbiased variance), which are part
/// of the model's parameters but have no gradient. It has no bias, which it would cancel.
class Activation final : public Step {
 public:
  struct Options {
    ValueId y = kNoValue;
    ValueId residual = kNoValue;  ///< A dense value with as many columns as y, or none.
    NormLayer norm = NormLayer::layer;
    ActivationFunction function = ActivationFunction::relu;
    bool bias = true;
    bool other_readers = false;  ///< Whether other steps read y too.
    DropoutMask dropout = {};
  };
  Activation(Declare& declare, const Options& options);

  void offer(const Pass& pass, RowRange rows) override;
  void gather(const Pass& pass) override;
  void forward(const Pass& pass, RowRange rows) override;
  void backward(const Pass& pass) override;
  void backward_rows(const Pass& pass, RowRange rows) override;
  void end_backward(const Pass& pass) override;

 private:
  NormAct norm_act(const Pass& pass, RowRange rows) const;
  /// Where the gradient of the residual goes; without data if it has none.
  MatrixView residual_gradient(const Pass& pass, RowRange rows) const;
  /// Where gradients of parameters go, added to those of earlier rows.
  NormActGradients gradients(const Pass& pass, RowRange rows) const;
  bool batch() const { return options_.norm == NormLayer::batch; }
  /// Sums sums_[0, 2 cols) and the number of rows over all ranks; returns that number.
  double sum_over_ranks(const Pass& pass);
  /// Where the second of two neighbouring vectors of `cols` values begins, and of values_.
  std::size_t second() const { return static_cast<std::size_t>(padded_stride(cols_)); }
  /// Reads two neighbouring vectors into values_, or writes them, with one wait for the device.
  void read_values(const Pass& pass, const float* from);
  void write_values(const Pass& pass, float* to) const;

  Options options_;
  std::int64_t cols_;
  ValueId out_;
  int bias_ = -1, gain_ = -1, shift_ = -1, running_mean_ = -1;
  /// LayerNorm: the rows' means, then their inverse deviations. BatchNorm: those of the columns,
  /// and the gradients of gain and shift over all ranks divided by the number of rows.
  Saved statistics_;
  std::vector<double> sums_;   ///< BatchNorm: space of sums over rows.
  std::vector<float> values_;  ///< BatchNorm: space for two neighbouring vectors.
};

}  // namespace heliograph
