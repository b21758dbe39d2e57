#include "layers/convolve.hpp"

#include "layers/gradients.hpp"

namespace heliograph {

Convolve::Convolve(Declare& declare, const Options& options)
    : options_(options),
      in_(declare.value(options.x).cols),
      input_gradient_(declare.value(options.x).has_gradient) {
  const bool transforms = options.transform_first;
  weight_ = declare.parameter(options.self_weight ? "neighbour_weight" : "weight", in_, options.out,
                              ParameterKind::weight);
  if (options.self_weight) {
    self_weight_ = declare.parameter("self_weight", in_, options.out, ParameterKind::weight);
  }
  if (options.epsilon) epsilon_ = declare.parameter("epsilon", 1, 1, ParameterKind::bias);
  if (options.bias) bias_ = declare.parameter("bias", 1, options.out, ParameterKind::bias);
  declare.reads(options.x, options.self_weight || options.epsilon || transforms);
  y_ = declare.writes(options.out, false);

  declare.gathers();
  const std::int64_t cols = transforms ? options.out : in_;
  forward_site_ =
      declare.site(Direction::forward, cols, !transforms && declare.value(options.x).nonnegative);
  // If x has no gradient, backward needs A^T only for the gradient of W in A (x W).
  const bool pulls = input_gradient_ || transforms;
  if (pulls) {
    backward_site_ = declare.site(Direction::backward, cols, false);
    declare.pulls();
  }
  if (!transforms) {
    declare.sends(forward_site_, options.x);
    if (pulls) declare.sends(backward_site_, options.x);
  }
  if (pulls || options.epsilon) gradient_ = declare.scratch(cols, {.backward = true});
  if (!transforms) {
    sum_ = declare.saves(cols);
  } else if (options.epsilon) {
    saved_transformed_ = declare.saves(cols);
  } else {
    transformed_ = declare.scratch(cols, {.forward = true, .inference = true});
  }
  sum_scratch_ = declare.sum_scratch(cols, pulls);
}

const float* Convolve::bias(const Pass& pass) const {
  return bias_ < 0 ? nullptr : pass.parameter(bias_).data;
}

/// Whether the last product adds the bias as it writes its result.
bool Convolve::self_adds_bias(const Pass& pass) const {
  return self_weight_ >= 0 && pass.kernels().adds_bias_in_products();
}

MatrixView Convolve::transformed(const Pass& pass) const {
  return options_.epsilon ? pass.saved(saved_transformed_) : pass.scratch(transformed_);
}

ConstMatrixView Convolve::exchanged(const Pass& pass) const {
  if (options_.transform_first) return transformed(pass);
  return pass.read(options_.x).dense;
}

ConstMatrixView Convolve::pulled(const Pass& pass) const {
  if (options_.transform_first) return pass.gradient(y_);
  return pass.scratch(gradient_);
}

void Convolve::multiply_self(const Pass& pass, RowRange rows, bool accumulate,
                             const float* bias) const {
  if (self_weight_ < 0) return;
  const PhaseTimer timer(pass.times().gemm);
  multiply(pass.kernels(), pass.read(options_.x).row_range(rows), pass.parameter(self_weight_),
           accumulate, bias, pass.write(y_).row_range(rows));
}

void Convolve::offer(const Pass& pass, RowRange rows) {
  if (options_.transform_first) {
    const PhaseTimer timer(pass.times().gemm);
    multiply(pass.kernels(), pass.read(options_.x).row_range(rows), pass.parameter(weight_), false,
             nullptr, transformed(pass).row_range(rows));
  }
  pass.graph.offer(pass.context, pass.site(forward_site_), exchanged(pass), rows);
}

void Convolve::gather(const Pass& pass) {
  const bool transforms = options_.transform_first;
  const MatrixView out = transforms ? pass.write(y_) : pass.saved(sum_);
  pass.graph.begin_sum(pass.context, pass.site(forward_site_), exchanged(pass), out,
                       pass.scratch(sum_scratch_), [&] {
                         multiply_self(pass, {0, out.rows}, transforms,
                                       transforms && self_adds_bias(pass) ? bias(pass) : nullptr);
                       });
}

void Convolve::forward(const Pass& pass, RowRange rows) {
  Kernels& k = pass.kernels();
  const MatrixView y = pass.write(y_).row_range(rows);
  const MatrixView sums = options_.transform_first ? pass.write(y_) : pass.saved(sum_);
  pass.graph.add_halo(pass.context, pass.site(forward_site_), sums, rows);
  if (epsilon_ >= 0) {
    k.add_scaled(pass.parameter(epsilon_).data, exchanged(pass).row_range(rows),
                 sums.row_range(rows));
  }
  if (options_.transform_first) {
    if (bias_ >= 0 && !self_adds_bias(pass)) k.add_bias(y, bias(pass));
    return;
  }
  const PhaseTimer timer(pass.times().gemm);
  multiply(k, FeatureView::of(sums).row_range(rows), pass.parameter(weight_), self_weight_ >= 0,
           bias(pass), y);
}

void Convolve::make_sum_gradient(const Pass& pass, RowRange rows) const {
  const PhaseTimer timer(pass.times().gemm);
  pass.kernels().gemm(pass.gradient(y_).row_range(rows), pass.parameter(weight_), true, false,
                      pass.scratch(gradient_).row_range(rows));
}

void Convolve::backward_offer(const Pass& pass, RowRange rows) {
  if (!options_.transform_first) make_sum_gradient(pass, rows);
  pass.graph.offer(pass.context, pass.site(backward_site_), pulled(pass), rows);
}

void Convolve::backward(const Pass& pass) {
  Kernels& k = pass.kernels();
  const ConstMatrixView dy = pass.gradient(y_);
  const MatrixView dx = input_gradient_ ? pass.gradient_part(options_.x) : MatrixView{};
  const auto self_gradient = [&] {
    if (self_weight_ >= 0) {
      weight_gradient(pass, pass.saved(options_.x), dy, self_weight_, !input_gradient_);
    }
  };
  const auto add_self_input_gradient = [&](bool accumulate) {
    if (self_weight_ < 0 || !input_gradient_) return;
    const PhaseTimer timer(pass.times().gemm);
    k.gemm(dy, pass.parameter(self_weight_), true, accumulate, dx);
  };
  // d: the gradient of the sums over neighbours; rows: what was summed.
  const auto epsilon_gradient = [&](ConstMatrixView d, ConstMatrixView rows) {
    if (epsilon_ < 0) return;
    k.dot(d, rows, pass.parameter_gradient(epsilon_));
    pass.complete(epsilon_);
  };

  const auto begin_sum = [&](MatrixView out, FunctionRef<void()> overlap) {
    pass.graph.begin_sum(pass.context, pass.site(backward_site_), pulled(pass), out,
                         pass.scratch(sum_scratch_), overlap);
  };
  if (options_.transform_first) {
    return begin_sum(pass.scratch(gradient_), [&] {
      bias_gradient(pass, dy, bias_);
      self_gradient();
      add_self_input_gradient(false);
      if (epsilon_ >= 0) epsilon_gradient(dy, pass.saved(saved_transformed_));
    });
  }
  const auto gradients = [&] {
    bias_gradient(pass, dy, bias_);
    if (epsilon_ >= 0) epsilon_gradient(pass.scratch(gradient_), pass.saved(options_.x).dense);
    weight_gradient(pass, FeatureView::of(pass.saved(sum_)), dy, weight_, !input_gradient_);
    self_gradient();
  };
  if (input_gradient_) {
    begin_sum(dx, [&] {
      add_self_input_gradient(true);
      gradients();
    });
  } else {
    if (epsilon_ >= 0) make_sum_gradient(pass, {0, dy.rows});
    gradients();
  }
}

void Convolve::backward_rows(const Pass& pass, RowRange rows) {
  if (backward_site_ < 0) return;
  const bool transforms = options_.transform_first;
  const MatrixView gradient = pass.scratch(gradient_);
  const MatrixView dx = input_gradient_ ? pass.gradient_part(options_.x) : MatrixView{};
  const MatrixView sums = transforms ? gradient : dx;
  pass.graph.add_halo(pass.context, pass.site(backward_site_), sums, rows);
  if (epsilon_ >= 0) {
    pass.kernels().add_scaled(pass.parameter(epsilon_).data, pulled(pass).row_range(rows),
                              sums.row_range(rows));
  }
  if (!transforms || !input_gradient_) return;
  const PhaseTimer timer(pass.times().gemm);
  pass.kernels().gemm(gradient.row_range(rows), pass.parameter(weight_), true, self_weight_ >= 0,
                      dx.row_range(rows));
}

void Convolve::end_backward(const Pass& pass) {
  if (!options_.transform_first) return;
  weight_gradient(pass, pass.saved(options_.x), pass.scratch(gradient_), weight_, !input_gradient_);
}

}  // namespace heliograph
