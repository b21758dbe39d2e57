#include "layers/gradients.hpp"

#include <algorithm>

namespace heliograph {
namespace {

/// How many rows of a weight's gradient are computed and announced at a time.
constexpr std::int64_t kGradientBlock = 128;

}  // namespace

void weight_gradient(const Pass& pass, const FeatureView& x, ConstMatrixView d, int weight,
                     bool last) {
  const std::int64_t rows = pass.parameter(weight).rows;
  const std::int64_t block = last ? kGradientBlock : rows;
  for (std::int64_t begin = 0; begin < rows; begin += block) {
    const std::int64_t end = std::min(begin + block, rows);
    {
      const PhaseTimer timer(pass.times().gemm);
      multiply_gradient(pass.kernels(), x, d, pass.parameter_gradient(weight), begin, end);
    }
    pass.complete(weight, begin, end, !last);
  }
}

void bias_gradient(const Pass& pass, ConstMatrixView d, int bias) {
  if (bias < 0) return;
  pass.kernels().column_sums(d, pass.parameter_gradient(bias));
  pass.complete(bias);
}

}  // namespace heliograph
