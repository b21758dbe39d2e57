#include <algorithm>
#include <cmath>

#include "core/cpu/loss.hpp"
#include "core/cpu/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/loss_simd.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// after foreach_target
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace heliograph::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kLine = 16;  // floats; rows are padded to lines, so whole vectors are read
using D = hn::CappedTag<float, kLine>;
using V = hn::Vec<D>;
constexpr D kF;

/// Runs body(first column, mask of valid columns) for each vector of a row of `cols` columns.
template <class Body>
void EachVector(std::int64_t cols, const Body& body) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(kF));
  for (std::int64_t c = 0; c < cols; c += lanes) {
    body(c, hn::FirstN(kF, static_cast<std::size_t>(std::min(lanes, cols - c))));
  }
}

float Sum(V v) { return hn::GetLane(hn::SumOfLanes(kF, v)); }

/// The weights of the classes of one vector, which begins with column c.
V Weights(const float* weights, std::int64_t c, std::int64_t cols) {
  if (weights == nullptr) return hn::Set(kF, 1.0F);
  HWY_ALIGN float line[kLine] = {};
  std::copy_n(weights + c, std::min(kLine, cols - c), line);
  return hn::Load(kF, line);
}

double SoftmaxCrossEntropy(ConstMatrixView logits, const ClassTargets& targets, float scale,
                           MatrixView d, std::int64_t begin, std::int64_t end) {
  double loss = 0;
  const float* weights = targets.weights;
  const float spread = targets.smoothing / static_cast<float>(logits.cols);
  float spread_mass = 0;
  for (std::int64_t c = 0; spread > 0 && c < logits.cols; ++c) {
    spread_mass += spread * (weights == nullptr ? 1.0F : weights[c]);
  }
  const V none = hn::Set(kF, -HUGE_VALF);
  for (std::int64_t r = begin; r < end; ++r) {
    float* out = d.row(r);
    const std::int32_t target = targets.class_of[r];
    if (target < 0) {
      std::fill_n(out, logits.cols, 0.0F);
      continue;
    }
    const float* z = logits.row(r);
    V highest = none;
    V poison = hn::Zero(kF);  // NaN after NaN or Inf, which Exp and Max would hide from the loss
    EachVector(logits.cols, [&](std::int64_t c, auto mask) {
      const V v = hn::Load(kF, z + c);
      highest = hn::Max(highest, hn::IfThenElse(mask, v, none));
      poison = hn::MulAdd(hn::IfThenElseZero(mask, v), hn::Zero(kF), poison);
    });
    const V top = hn::MaxOfLanes(kF, highest);
    V sums = hn::Zero(kF);
    EachVector(logits.cols, [&](std::int64_t c, auto mask) {
      const V e = hn::IfThenElseZero(mask, hn::Exp(kF, hn::Sub(hn::Load(kF, z + c), top)));
      sums = hn::Add(sums, e);
      hn::BlendedStore(e, mask, kF, out + c);
    });
    const float sum = Sum(sums);
    const float kept = (1.0F - targets.smoothing) * (weights == nullptr ? 1.0F : weights[target]);
    const float mass = kept + spread_mass;  // The sum of the row's target values.
    const V factor = hn::Set(kF, mass * scale / sum);
    EachVector(logits.cols, [&](std::int64_t c, auto mask) {
      hn::BlendedStore(hn::Mul(hn::Load(kF, out + c), factor), mask, kF, out + c);
    });
    out[target] -= scale * kept;
    loss += static_cast<double>(mass) * std::log(static_cast<double>(sum)) +
            static_cast<double>(kept) *
                (static_cast<double>(hn::GetLane(top)) - static_cast<double>(z[target])) +
            static_cast<double>(Sum(poison));
    if (spread == 0) continue;
    V behind = hn::Zero(kF);
    const V step = hn::Set(kF, scale * spread);
    EachVector(logits.cols, [&](std::int64_t c, auto mask) {
      const V w = Weights(weights, c, logits.cols);
      const V gap = hn::IfThenElseZero(mask, hn::Sub(top, hn::Load(kF, z + c)));
      behind = hn::MulAdd(w, gap, behind);
      hn::BlendedStore(hn::NegMulAdd(step, w, hn::Load(kF, out + c)), mask, kF, out + c);
    });
    loss += static_cast<double>(spread) * static_cast<double>(Sum(behind));
  }
  return loss;
}

double BinaryCrossEntropy(ConstMatrixView logits, const std::uint8_t* indicators,
                          const std::uint8_t* mask, float scale, MatrixView d, std::int64_t begin,
                          std::int64_t end) {
  double loss = 0;
  const V one = hn::Set(kF, 1.0F);
  const V factor = hn::Set(kF, scale);
  for (std::int64_t r = begin; r < end; ++r) {
    float* out = d.row(r);
    if (mask[r] == 0) {
      std::fill_n(out, logits.cols, 0.0F);
      continue;
    }
    const float* z = logits.row(r);
    const std::uint8_t* y = indicators + r * logits.cols;
    V sums = hn::Zero(kF);
    EachVector(logits.cols, [&](std::int64_t c, auto there) {
      HWY_ALIGN float wanted[kLine] = {};
      const std::int64_t n = std::min(kLine, logits.cols - c);
      for (std::int64_t i = 0; i < n; ++i) wanted[i] = y[c + i];
      const V label = hn::Load(kF, wanted);
      const V v = hn::IfThenElseZero(there, hn::Load(kF, z + c));
      // softplus(z) - y z; the exponent is never positive, so it cannot overflow.
      const V e = hn::Exp(kF, hn::Neg(hn::Abs(v)));
      const V positive = hn::Max(v, hn::Zero(kF));
      const V term = hn::Add(hn::NegMulAdd(v, label, positive), hn::Log1p(kF, e));
      sums = hn::Add(sums, hn::IfThenElseZero(there, term));
      const V sigmoid = hn::Div(hn::IfThenElse(hn::Ge(v, hn::Zero(kF)), one, e), hn::Add(one, e));
      hn::BlendedStore(hn::Mul(hn::Sub(sigmoid, label), factor), there, kF, out + c);
    });
    loss += static_cast<double>(Sum(sums));
  }
  return loss;
}

}  // namespace heliograph::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heliograph::cpu {

HWY_EXPORT(SoftmaxCrossEntropy);
HWY_EXPORT(BinaryCrossEntropy);

double softmax_cross_entropy_rows(ConstMatrixView logits, const ClassTargets& targets, float scale,
                                  MatrixView d, std::int64_t begin, std::int64_t end) {
  return HWY_DYNAMIC_DISPATCH(SoftmaxCrossEntropy)(logits, targets, scale, d, begin, end);
}

double binary_cross_entropy_rows(ConstMatrixView logits, const std::uint8_t* indicators,
                                 const std::uint8_t* mask, float scale, MatrixView d,
                                 std::int64_t begin, std::int64_t end) {
  return HWY_DYNAMIC_DISPATCH(BinaryCrossEntropy)(logits, indicators, mask, scale, d, begin, end);
}

}  // namespace heliograph::cpu
#endif
