#include "layers/convolution.hpp"

#include <algorithm>
#include <string>

namespace heliograph {
namespace {

/// Rows of a weight's gradient that are computed, and travel, at a time.
constexpr std::int64_t kGradientBlock = 128;

}  // namespace

Workspace::Workspace(std::int64_t rows, std::int64_t width, bool fp64, MemoryAccount* account) {
  const auto values = static_cast<std::size_t>(rows * padded_stride(width));
  for (Buffer& buffer : buffers_) {
    buffer = Buffer(values * sizeof(float), MemoryRoom::gradients, account);
  }
  if (fp64) {
    const auto sums = static_cast<std::size_t>(rows * padded_stride<double>(width));
    accumulator_ = Buffer(sums * sizeof(double), MemoryRoom::workspace, account);
  }
}

MatrixView Workspace::matrix(int which, std::int64_t rows, std::int64_t cols) const {
  return {buffers_[order_[which]].as<float>().data(), rows, cols, padded_stride(cols)};
}

AccumulatorView Workspace::accumulator() const {
  return {accumulator_.as<double>().data(), 0, 0, 0};
}

Convolution::Convolution(const Shape& shape, Parameters& parameters) : shape_(shape) {
  const std::string prefix = "layers." + std::to_string(shape.layer) + ".";
  const bool sage = shape.kind == ModelKind::sage;
  weight_ = parameters.declare(prefix + (sage ? "neighbour_weight" : "weight"), shape.in, shape.out,
                               ParameterKind::weight);
  if (sage)
    self_weight_ =
        parameters.declare(prefix + "self_weight", shape.in, shape.out, ParameterKind::weight);
}

void Convolution::forward(const PassContext& pass, const GraphOperator& a,
                          const Parameters& parameters, const FeatureView& x,
                          const FeatureView* aggregated, const Workspace& workspace,
                          const float* bias, MatrixView y) {
  apply(pass, a, parameters, x, aggregated, workspace, aggregated_, bias, y);
}

void Convolution::infer(const PassContext& pass, const GraphOperator& a,
                        const Parameters& parameters, const FeatureView& x,
                        const FeatureView* aggregated, const Workspace& workspace,
                        const float* bias, MatrixView y) const {
  apply(pass, a, parameters, x, aggregated, workspace, workspace.matrix(1, y.rows, shape_.in), bias,
        y);
}

/// `sum` takes A x where that is neither given nor avoided by transforming first. The bias goes
/// with the last product, where that comes last or the device adds it as it writes.
void Convolution::apply(const PassContext& pass, const GraphOperator& a,
                        const Parameters& parameters, const FeatureView& x,
                        const FeatureView* aggregated, const Workspace& workspace, MatrixView sum,
                        const float* bias, MatrixView y) const {
  Kernels& k = pass.kernels;
  const ConstMatrixView w = parameters.value(weight_);
  const bool self = self_weight_ >= 0;
  const auto add_self = [&](bool accumulate, const float* last_bias) {
    if (!self) return;
    const PhaseTimer timer(pass.clock.gemm);
    multiply(k, x, parameters.value(self_weight_), accumulate, last_bias, y);
  };
  if (aggregated != nullptr) {
    {
      const PhaseTimer timer(pass.clock.gemm);
      multiply(k, *aggregated, w, false, self ? nullptr : bias, y);
    }
    add_self(true, bias);
    return;
  }
  if (shape_.transform_first) {
    const MatrixView t = workspace.matrix(1, y.rows, shape_.out);
    {
      const PhaseTimer timer(pass.clock.gemm);
      multiply(k, x, w, false, nullptr, t);
    }
    const bool with_self = self && k.adds_bias_in_products();
    a.apply(pass, Direction::forward, shape_.layer, t, false, y, workspace.accumulator(),
            [&] { add_self(true, with_self ? bias : nullptr); });
    if (bias != nullptr && !with_self) k.add_bias(y, bias);
    return;
  }
  a.apply(pass, Direction::forward, shape_.layer, x.dense, shape_.nonnegative_input, sum,
          workspace.accumulator(), [&] { add_self(false, nullptr); });
  const PhaseTimer timer(pass.clock.gemm);
  multiply(k, FeatureView::of(sum), w, self, bias, y);
}

void Convolution::backward(const PassContext& pass, const GraphOperator& a,
                           const Parameters& parameters, const FeatureView& x,
                           const FeatureView* aggregated, const Workspace& workspace,
                           ConstMatrixView dy, bool input_gradient, GradientRows complete) const {
  Kernels& k = pass.kernels;
  const ConstMatrixView w = parameters.value(weight_);
  const MatrixView dx = workspace.matrix(2, dy.rows, shape_.in);
  const auto weight_gradient = [&](const FeatureView& input, ConstMatrixView d, int parameter) {
    // The last gradients of a pass have nothing to travel behind but each other.
    const std::int64_t block = input_gradient ? shape_.in : kGradientBlock;
    for (std::int64_t begin = 0; begin < shape_.in; begin += block) {
      const std::int64_t end = std::min(begin + block, shape_.in);
      {
        const PhaseTimer timer(pass.clock.gemm);
        multiply_gradient(k, input, d, parameters.gradient(parameter), begin, end);
      }
      complete(parameter, begin, end);
    }
  };
  const auto self_gradient = [&] {
    if (self_weight_ >= 0) weight_gradient(x, dy, self_weight_);
  };
  const auto add_self_input_gradient = [&](bool accumulate) {
    if (self_weight_ < 0) return;
    const PhaseTimer timer(pass.clock.gemm);
    k.gemm(dy, parameters.value(self_weight_), true, accumulate, dx);
  };

  if (aggregated != nullptr || !shape_.transform_first) {
    const FeatureView m = aggregated != nullptr ? *aggregated : FeatureView::of(aggregated_);
    if (!input_gradient) {
      weight_gradient(m, dy, weight_);
      self_gradient();
      return;
    }
    const MatrixView dm = workspace.matrix(1, dy.rows, shape_.in);
    {
      const PhaseTimer timer(pass.clock.gemm);
      k.gemm(dy, w, true, false, dm);
    }
    a.apply(pass, Direction::backward, shape_.layer, dm, false, dx, workspace.accumulator(), [&] {
      add_self_input_gradient(true);
      weight_gradient(m, dy, weight_);
      self_gradient();
    });
    return;
  }
  const MatrixView dt = workspace.matrix(1, dy.rows, shape_.out);
  a.apply(pass, Direction::backward, shape_.layer, dy, false, dt, workspace.accumulator(), [&] {
    self_gradient();
    if (input_gradient) add_self_input_gradient(false);
  });
  weight_gradient(x, dt, weight_);
  if (input_gradient) {
    const PhaseTimer timer(pass.clock.gemm);
    k.gemm(dt, w, true, self_weight_ >= 0, dx);
  }
}

}  // namespace heliograph
