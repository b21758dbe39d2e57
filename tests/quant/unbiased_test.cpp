#include <gtest/gtest.h>

#include "quant/codec_rows.hpp"

namespace heliograph {
namespace {

/// The errors of one row that is encoded under many keys.
struct Bias {
  double mean_in_steps;   // over all columns and keys
  double sigma_in_steps;  // standard deviation of that mean
  double worst_z;         // largest column mean in its own standard deviations
};

/// The distance between the two representable values around x.
double unit_at(float x, const PackedRows& packed) {
  if (packed.format.is_codes()) return read_parameters(packed.row(0), packed.format).step;
  return std::ldexp(1.0, std::ilogb(x) - 7);
}

double fraction_at(float x, const PackedRows& packed) {
  const double low =
      packed.format.is_codes() ? read_parameters(packed.row(0), packed.format).minimum : 0.0;
  const double t = (static_cast<double>(x) - low) / unit_at(x, packed);
  return t - std::floor(t);
}

Bias measure(RowFormat format, const RowKind& kind, std::uint64_t stream, std::int64_t keys) {
  constexpr std::int64_t kCols = 64;
  ThreadPool threads(1);
  const auto codec = make_cpu_codec(format);
  CodecCase c(keys, kCols);
  std::mt19937 random(17);
  for (std::int64_t i = 0; i < kCols; ++i) c.x.view().data[i] = kind.value(random, i);
  for (std::int64_t r = 1; r < keys; ++r) {
    std::copy_n(c.x.view().data, kCols, c.x.view().row(r));
  }
  const auto bytes = c.encode(*codec, stream, threads);
  const PackedRows packed = c.packed(bytes, format);
  const Matrix values = decoded(packed);
  Bias bias{0, 0, 0};
  for (std::int64_t i = 0; i < kCols; ++i) {
    const float x = c.x.view().data[i];
    const double unit = unit_at(x, packed);
    const double fraction = fraction_at(x, packed);
    double sum = 0;
    for (std::int64_t r = 0; r < keys; ++r) {
      sum += (static_cast<double>(values.view().row(r)[i]) - x) / unit;
    }
    const double variance = fraction * (1 - fraction) / static_cast<double>(keys);
    const double mean = sum / static_cast<double>(keys);
    bias.mean_in_steps += mean / kCols;
    bias.sigma_in_steps += variance / (kCols * kCols);
    // 2^-17 of a step is the noise's own resolution; the rest is the fp32 rounding of 8-bit codes.
    const double allowed = std::sqrt(variance) + 0x1p-14;
    bias.worst_z = std::max(bias.worst_z, std::abs(mean) / allowed);
  }
  bias.sigma_in_steps = std::sqrt(bias.sigma_in_steps);
  return bias;
}

TEST(Unbiased, OverManyKeys) {
  for (const RowFormat format : all_formats()) {
    if (format.bits == 32) continue;
    for (const char* name : {"normal", "relu", "negative", "huge"}) {
      const auto kinds = row_kinds();
      const auto kind = std::find_if(kinds.begin(), kinds.end(),
                                     [&](const RowKind& k) { return std::string(k.name) == name; });
      if (!format.has_minimum && std::string(name) != "relu") continue;
      if (format.bits == 16 && std::string(name) == "relu") continue;  // zeros have no unit
      SCOPED_TRACE(name_of(format) + ", " + name);
      const Bias bias =
          measure(format, *kind, stream_key(3, Purpose::rounding, {0}, site_key(0, {})), 32000);
      // Five deviations, and a test that would see a bias of 2^-8 of a step at that bound.
      EXPECT_LT(std::abs(bias.mean_in_steps), 5 * bias.sigma_in_steps + 0x1p-14);
      EXPECT_LT(10 * bias.sigma_in_steps + 0x1p-14, 0x1p-8);
      EXPECT_LT(bias.worst_z, 5.0);
    }
  }
}

TEST(Unbiased, OverEpochsOfOneNode) {
  // One node's draws in training have the same id and columns in every epoch.
  ThreadPool threads(1);
  constexpr std::int64_t kCols = 64;
  constexpr int kEpochs = 20000;
  const auto codec = make_cpu_codec({1, true});
  CodecCase c(1, kCols);
  for (std::int64_t i = 0; i < kCols; ++i) {
    c.x.view().data[i] = static_cast<float>(i) / (kCols - 1);
  }
  std::vector<double> sum(kCols);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const auto bytes = c.encode(
        *codec, stream_key(1, Purpose::rounding, {epoch}, site_key(1, Direction::backward)),
        threads);
    for (std::int64_t i = 0; i < kCols; ++i) {
      sum[static_cast<std::size_t>(i)] += decode_value(bytes.data(), {1, true}, kCols, i);
    }
  }
  for (std::int64_t i = 0; i < kCols; ++i) {
    const double x = c.x.view().data[i];
    const double sigma = std::sqrt(x * (1 - x) / kEpochs);
    EXPECT_NEAR(sum[static_cast<std::size_t>(i)] / kEpochs, x, 5 * sigma + 0x1p-17) << i;
  }
}

}  // namespace
}  // namespace heliograph
