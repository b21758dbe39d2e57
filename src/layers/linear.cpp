#include "layers/linear.hpp"

#include <algorithm>

#include "layers/gradients.hpp"

namespace heliograph {

Linear::Linear(Declare& declare, const Options& options) : options_(options) {
  last_ = std::ranges::none_of(options.terms,
                               [&](const Term& t) { return declare.value(t.x).has_gradient; });
  for (const Term& t : options.terms) {
    weights_.push_back(
        declare.parameter(t.weight, declare.value(t.x).cols, options.out, ParameterKind::weight));
  }
  if (options.bias) bias_ = declare.parameter("bias", 1, options.out, ParameterKind::bias);
  for (const Term& t : options.terms) declare.reads(t.x, true);
  y_ = declare.writes(options.out, false);
  declare.row_by_row();
  if (options.share < 1) scaled_ = declare.scratch(options.out, {.backward = true});
}

void Linear::forward(const Pass& pass, RowRange rows) {
  const PhaseTimer timer(pass.times().gemm);
  const MatrixView y = pass.write(y_).row_range(rows);
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const bool adds_bias = bias_ >= 0 && i + 1 == weights_.size();
    multiply(pass.kernels(), pass.read(options_.terms[i].x).row_range(rows),
             pass.parameter(weights_[i]), i > 0, adds_bias ? pass.parameter(bias_).data : nullptr,
             y);
  }
  if (options_.share < 1) {
    pass.kernels().axpby(1 - options_.share, pass.read(options_.terms[0].x).row_range(rows).dense,
                         options_.share, y);
  }
}

void Linear::backward_rows(const Pass& pass, RowRange rows) {
  Kernels& k = pass.kernels();
  const ConstMatrixView dy = pass.gradient(y_).row_range(rows);
  const bool scales = options_.share < 1;
  const MatrixView scaled = scales ? pass.scratch(scaled_).row_range(rows) : MatrixView{};
  if (scales) k.axpby(options_.share, dy, 0, scaled);
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const ValueId x = options_.terms[i].x;
    if (!pass.has_gradient(x)) continue;
    const MatrixView dx = pass.gradient_part(x).row_range(rows);
    const PhaseTimer timer(pass.times().gemm);
    k.gemm(scales ? scaled : dy, pass.parameter(weights_[i]), true, false, dx);
    if (scales) k.axpby(1 - options_.share, dy, 1, dx);
  }
}

void Linear::end_backward(const Pass& pass) {
  const ConstMatrixView dy = pass.gradient(y_);
  bias_gradient(pass, dy, bias_);
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    weight_gradient(pass, pass.saved(options_.terms[i].x),
                    options_.share < 1 ? pass.scratch(scaled_) : dy, weights_[i], last_);
  }
}

}  // namespace heliograph
