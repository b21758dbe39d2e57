#include "layers/convolve.hpp"

#include <algorithm>

namespace heliograph {
namespace {

/// How many rows of a weight's gradient are computed and announced at a time.
constexpr std::int64_t kGradientBlock = 128;

}  // namespace

Convolve::Convolve(Declare& declare, const Options& options)
    : options_(options),
      in_(declare.value(options.x).cols),
      input_gradient_(declare.value(options.x).has_gradient) {
  const bool given = options.aggregated != kNoValue;
  const bool transforms = options.transform_first;
  weight_ = declare.parameter(options.self_weight ? "neighbour_weight" : "weight", in_, options.out,
                              ParameterKind::weight);
  if (options.self_weight) {
    self_weight_ = declare.parameter("self_weight", in_, options.out, ParameterKind::weight);
  }
  if (options.bias) bias_ = declare.parameter("bias", 1, options.out, ParameterKind::bias);
  if (given) declare.reads(options.aggregated, true);
  if (!given || options.self_weight) {
    declare.reads(options.x, options.self_weight || transforms);
  }
  y_ = declare.writes(options.out, false);
  if (given) return;

  declare.gathers();
  const std::int64_t cols = transforms ? options.out : in_;
  forward_site_ =
      declare.site(Direction::forward, cols, !transforms && declare.value(options.x).nonnegative);
  // If x has no gradient, backward needs A^T only for the gradient of W in A (x W).
  const bool pulls = input_gradient_ || transforms;
  if (pulls) {
    backward_site_ = declare.site(Direction::backward, cols, false);
    gradient_ = declare.scratch(cols, {.backward = true});
  }
  if (transforms) {
    transformed_ = declare.scratch(cols, {.forward = true, .inference = true});
  } else {
    sum_ = declare.saves(cols);
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

ConstMatrixView Convolve::exchanged(const Pass& pass) const {
  if (options_.transform_first) return pass.scratch(transformed_);
  return pass.read(options_.x).dense;
}

void Convolve::multiply_self(const Pass& pass, RowRange rows, bool accumulate,
                             const float* bias) const {
  if (self_weight_ < 0) return;
  const PhaseTimer timer(pass.times().gemm);
  multiply(pass.kernels(), pass.read(options_.x).row_range(rows), pass.parameter(self_weight_),
           accumulate, bias, pass.write(y_).row_range(rows.begin, rows.rows()));
}

void Convolve::offer(const Pass& pass, RowRange rows) {
  if (options_.transform_first) {
    const PhaseTimer timer(pass.times().gemm);
    multiply(pass.kernels(), pass.read(options_.x).row_range(rows), pass.parameter(weight_), false,
             nullptr, pass.scratch(transformed_).row_range(rows.begin, rows.rows()));
  }
  const Site& site = pass.site(forward_site_);
  if (rows.begin == 0) pass.graph.open(pass.context, site, exchanged(pass));
  pass.context.halo.offer(site, rows);
}

void Convolve::gather(const Pass& pass) {
  const bool transforms = options_.transform_first;
  const MatrixView out = transforms ? pass.write(y_) : pass.saved(sum_);
  pass.graph.sum(pass.context, pass.site(forward_site_), exchanged(pass), out,
                 pass.scratch(sum_scratch_), [&] {
                   multiply_self(pass, {0, out.rows}, transforms,
                                 transforms && self_adds_bias(pass) ? bias(pass) : nullptr);
                 });
}

void Convolve::forward(const Pass& pass, RowRange rows) {
  Kernels& k = pass.kernels();
  const MatrixView y = pass.write(y_).row_range(rows.begin, rows.rows());
  const bool given = options_.aggregated != kNoValue;
  const bool self = self_weight_ >= 0;
  if (options_.transform_first) {
    if (bias_ >= 0 && !self_adds_bias(pass)) k.add_bias(y, bias(pass));
    return;
  }
  {
    const FeatureView sum =
        given ? pass.read(options_.aggregated) : FeatureView::of(pass.saved(sum_));
    const PhaseTimer timer(pass.times().gemm);
    multiply(k, sum.row_range(rows), pass.parameter(weight_), self && !given,
             self && given ? nullptr : bias(pass), y);
  }
  if (given) multiply_self(pass, rows, true, bias(pass));
}

void Convolve::weight_gradient(const Pass& pass, const FeatureView& x, ConstMatrixView d,
                               int weight) const {
  // The last gradients of a pass can overlap only with each other, so they are made in blocks.
  const std::int64_t block = input_gradient_ ? in_ : kGradientBlock;
  for (std::int64_t begin = 0; begin < in_; begin += block) {
    const std::int64_t end = std::min(begin + block, in_);
    {
      const PhaseTimer timer(pass.times().gemm);
      multiply_gradient(pass.kernels(), x, d, pass.parameter_gradient(weight), begin, end);
    }
    pass.complete(weight, begin, end);
  }
}

void Convolve::pull(const Pass& pass, ConstMatrixView rows, FunctionRef<void(RowRange)> make,
                    MatrixView out, FunctionRef<void()> overlap) const {
  const Site& site = pass.site(backward_site_);
  for (const RowRange block : pass.blocks) {
    make(block);
    if (block.begin == 0) pass.graph.open(pass.context, site, rows);
    pass.context.halo.offer(site, block);
  }
  pass.graph.sum(pass.context, site, rows, out, pass.scratch(sum_scratch_), overlap);
}

void Convolve::backward(const Pass& pass) {
  Kernels& k = pass.kernels();
  const ConstMatrixView dy = pass.gradient(y_);
  const ConstMatrixView w = pass.parameter(weight_);
  if (bias_ >= 0) {
    k.column_sums(dy, pass.parameter_gradient(bias_));
    pass.complete(bias_);
  }
  const MatrixView dx = input_gradient_ ? pass.gradient_part(options_.x) : MatrixView{};
  const auto self_gradient = [&] {
    if (self_weight_ >= 0) weight_gradient(pass, pass.saved(options_.x), dy, self_weight_);
  };
  const auto add_self_input_gradient = [&](bool accumulate) {
    if (self_weight_ < 0 || !input_gradient_) return;
    const PhaseTimer timer(pass.times().gemm);
    k.gemm(dy, pass.parameter(self_weight_), true, accumulate, dx);
  };

  if (!options_.transform_first) {
    const FeatureView sum = options_.aggregated != kNoValue ? pass.saved(options_.aggregated)
                                                            : FeatureView::of(pass.saved(sum_));
    const auto weight_gradients = [&] {
      weight_gradient(pass, sum, dy, weight_);
      self_gradient();
    };
    if (!input_gradient_) return weight_gradients();
    const MatrixView d_sum = pass.scratch(gradient_);
    pull(
        pass, d_sum,
        [&](RowRange rows) {
          const PhaseTimer timer(pass.times().gemm);
          k.gemm(dy.row_range(rows.begin, rows.rows()), w, true, false,
                 d_sum.row_range(rows.begin, rows.rows()));
        },
        dx,
        [&] {
          add_self_input_gradient(true);
          weight_gradients();
        });
    return;
  }
  const MatrixView d_transformed = pass.scratch(gradient_);
  pull(
      pass, dy, [](RowRange) {}, d_transformed,
      [&] {
        self_gradient();
        add_self_input_gradient(false);
      });
  weight_gradient(pass, pass.saved(options_.x), d_transformed, weight_);
  if (!input_gradient_) return;
  const PhaseTimer timer(pass.times().gemm);
  k.gemm(d_transformed, w, true, self_weight_ >= 0, dx);
}

}  // namespace heliograph
