#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "core/host_device.hpp"
#include "core/packed_rows.hpp"

// The arithmetic of one value and of one row's parameters, which every codec (scalar, SIMD, device)
// must match bit for bit; docs/wire_format.md gives the reasons. Host and device compilers read
// this header, and neither may contract a product and a sum in it.

namespace heliograph {

/// Largest code of a format with codes.
HELIOGRAPH_HOST_DEVICE constexpr std::uint32_t max_code(int bits) { return (1U << bits) - 1U; }

/// Whether x is neither NaN nor Inf.
HELIOGRAPH_HOST_DEVICE inline bool is_finite(float x) {
  return (std::bit_cast<std::uint32_t>(x) & 0x7f800000U) != 0x7f800000U;
}

/// Parameters of a row of codes: the two 16-bit halves that are sent, and their values.
struct CodeParameters {
  std::uint16_t minimum_bits = 0;
  std::uint16_t step_bits = 0;
  float minimum = 0;
  float step = 0;
  float inverse_step = 0;  ///< fp32 1 / step; 0 for a constant row.
  std::uint32_t top = 0;   ///< The largest code.
};

/// The largest bf16 that is not above a finite x; minus infinity below the range of bf16. Both
/// zeros give +0.
HELIOGRAPH_HOST_DEVICE inline std::uint16_t bf16_below(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits << 1) == 0) return 0;
  const bool negative = (bits >> 31) != 0;
  return static_cast<std::uint16_t>((bits + (negative ? 0xffffU : 0U)) >> 16);
}

/// The smallest step, in its 16-bit form, that is not below x >= 0 and is 0 or at least 2^-126;
/// 0xff00 (infinity) or more if there is none.
HELIOGRAPH_HOST_DEVICE inline std::uint32_t step_above(double x) {
  if (x <= 0) return 0;  // also -0
  const auto nearest = static_cast<float>(x);
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (static_cast<double>(nearest) < x) ++bits;
  const std::uint32_t step = (bits + 0x7fffU) >> 15;
  return step != 0 && step < 0x100U ? 0x100U : step;
}

/// Chooses the parameters of a row of finite values between lo and hi. Returns false if the row
/// cannot be encoded: a decoded value could overflow, or lo < 0 in a format without minimum.
HELIOGRAPH_HOST_DEVICE inline bool choose_parameters(float lo, float hi, RowFormat format,
                                                     CodeParameters& out) {
  if (!format.has_minimum && lo < 0) return false;
  out.minimum_bits = format.has_minimum ? bf16_below(lo) : std::uint16_t{0};
  out.minimum = bf16_to_float(out.minimum_bits);
  if (!is_finite(out.minimum)) return false;
  out.top = max_code(format.bits);
  const double top = out.top;
  const std::uint32_t step_bits =
      step_above((static_cast<double>(hi) - static_cast<double>(out.minimum)) / top);
  if (step_bits >= 0xff00U) return false;
  out.step_bits = static_cast<std::uint16_t>(step_bits);
  out.step = step_to_float(out.step_bits);
  const double span = top * static_cast<double>(out.step);
  constexpr double largest = std::numeric_limits<float>::max();
  if (span > largest || static_cast<double>(out.minimum) + span > largest) return false;
  out.inverse_step = out.step_bits == 0 ? 0.0F : 1.0F / out.step;
  return true;
}

/// Whether stochastic rounding with 16 bits of noise rounds a value up that lies `fraction` of a
/// step above a representable one: fraction > (noise + 0.5) / 2^16. From 1 on it always does.
HELIOGRAPH_HOST_DEVICE inline bool rounds_up(float fraction, std::uint32_t noise) {
  // The noise in the low mantissa bits of 128, less 128: exact, and cheaper than a conversion.
  return fraction > std::bit_cast<float>(0x43000000U | noise) - 0x1.fffffep6F;
}

/// Stochastically rounded code, in the layout of `bits` bits, of a finite x >= minimum. Values
/// within step * 2^-17 of a representable one never move; 8 bits divide, as a product with 1 / step
/// is not accurate enough.
HELIOGRAPH_HOST_DEVICE inline std::uint32_t stochastic_code(float x, const CodeParameters& p,
                                                            int bits, std::uint32_t noise) {
  const float above = x - p.minimum;  // 0 where the step is
  float t = 0;
  if (bits < 8) {
    t = above * p.inverse_step;
  } else if (p.step_bits != 0) {
    t = above / p.step;
  }
  if (bits == 1) return rounds_up(t, noise) ? 1U : 0U;
  const auto whole = static_cast<std::uint32_t>(t);
  const bool up = rounds_up(t - static_cast<float>(whole), noise);
  return std::min(whole + (up ? 1U : 0U), p.top);
}

/// A finite x rounded stochastically to one of its two neighbours in bf16, never to infinity.
HELIOGRAPH_HOST_DEVICE inline std::uint16_t stochastic_bf16(float x, std::uint32_t noise) {
  const std::uint32_t half = (std::bit_cast<std::uint32_t>(x) + noise) >> 16;
  return static_cast<std::uint16_t>((half & 0x8000U) | std::min(half & 0x7fffU, 0x7f7fU));
}

}  // namespace heliograph
