#include "layers/activation.hpp"

namespace heliograph {

Activation::Activation(Declare& declare, const Options& options) : options_(options) {
  const std::int64_t cols = declare.value(options.y).cols;
  bias_ = declare.parameter("bias", 1, cols, ParameterKind::bias);
  if (options.layer_norm) {
    gain_ = declare.parameter("norm_gain", 1, cols, ParameterKind::gain);
    shift_ = declare.parameter("norm_shift", 1, cols, ParameterKind::bias);
    statistics_ = declare.saves(2, true);
  }
  declare.reads(options.y, true);
  if (options.residual != kNoValue) declare.reads(options.residual, false);
  out_ = declare.writes(
      cols, options.residual == kNoValue || declare.value(options.residual).nonnegative);
  declare.overwrites_gradient(options.y);
}

NormAct Activation::norm_act(const Pass& pass, MatrixView statistics, RowRange rows) const {
  NormAct p;
  p.bias = pass.parameter(bias_).data;
  p.dropout = options_.dropout.of(pass, rows);
  if (gain_ < 0) return p;
  p.gain = pass.parameter(gain_).data;
  p.shift = pass.parameter(shift_).data;
  p.mean = statistics.row(0) + rows.begin;
  p.rstd = statistics.row(1) + rows.begin;
  return p;
}

void Activation::forward(const Pass& pass, RowRange rows) {
  const bool adds = options_.residual != kNoValue;
  const MatrixView statistics = gain_ < 0 ? MatrixView{} : pass.saved(statistics_);
  pass.kernels().norm_act_forward(
      pass.read(options_.y).row_range(rows).dense, norm_act(pass, statistics, rows),
      adds ? pass.read(options_.residual).row_range(rows).dense : ConstMatrixView{},
      pass.write(out_).row_range(rows.begin, rows.rows()));
}

void Activation::backward(const Pass& pass) {
  const MatrixView d = pass.gradient(out_);
  NormActGradients g;
  g.bias = pass.parameter_gradient(bias_);
  if (gain_ >= 0) {
    g.gain = pass.parameter_gradient(gain_);
    g.shift = pass.parameter_gradient(shift_);
  }
  const MatrixView statistics = gain_ < 0 ? MatrixView{} : pass.saved(statistics_);
  pass.kernels().norm_act_backward(
      pass.saved(options_.y).dense, norm_act(pass, statistics, {0, d.rows}), d,
      options_.residual == kNoValue ? MatrixView{} : pass.gradient_part(options_.residual), g);
  pass.complete(bias_);
  if (gain_ < 0) return;
  pass.complete(gain_);
  pass.complete(shift_);
}

}  // namespace heliograph
