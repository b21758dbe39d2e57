#include "layers/parameters.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/noise.hpp"

namespace heliograph {

int Parameters::declare(std::string name, std::int64_t rows, std::int64_t cols,
                        ParameterKind kind) {
  slots_.push_back({std::move(name), rows, cols, size_, kind});
  size_ += padded_stride(rows * cols);
  return count() - 1;
}

int Parameters::declare_statistic(std::string name, std::int64_t cols, float initial) {
  statistics_.push_back({std::move(name), cols, statistics_size_, initial});
  statistics_size_ += padded_stride(cols);
  return statistics() - 1;
}

void Parameters::allocate(bool fp64_gradients, MemoryAccount* account) {
  fp64_ = fp64_gradients;
  const auto size = static_cast<std::size_t>(size_);
  values_ = Buffer((size + static_cast<std::size_t>(statistics_size_)) * sizeof(float),
                   MemoryUse::weights, account);
  gradients_ = Buffer(size * (fp64_ ? sizeof(double) : sizeof(float)), MemoryUse::weights, account);
}

void Parameters::initialise(std::uint64_t seed, Kernels& kernels) {
  if (flat_values().empty()) return;
  std::vector<float> values(flat_values().size(), 0.0F);
  for (const StatisticSlot& s : statistics_) {
    std::fill_n(values.data() + size_ + s.offset, s.cols, s.initial);
  }
  for (int i = 0; i < count(); ++i) {
    const Slot& s = slot(i);
    float* first = values.data() + s.offset;
    if (s.kind == ParameterKind::gain) std::fill_n(first, s.rows * s.cols, 1.0F);
    if (s.kind != ParameterKind::weight) continue;
    const double bound = std::sqrt(6.0 / static_cast<double>(s.rows + s.cols));
    const std::uint64_t stream =
        stream_key(seed, Purpose::initialisation, {}, static_cast<std::uint64_t>(i));
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const std::uint64_t key = row_key(stream, static_cast<std::uint64_t>(r));
      for (std::int64_t c = 0; c < s.cols; ++c) {
        const double u = (noise_word(key, static_cast<std::uint32_t>(c)) + 0.5) / 4294967296.0;
        first[r * s.cols + c] = static_cast<float>((2 * u - 1) * bound);
      }
    }
  }
  kernels.device().upload(values_.data(), values.data(), values.size() * sizeof(float));
}

MatrixView Parameters::value(int i) const {
  const Slot& s = slot(i);
  return {values_.as<float>().data() + s.offset, s.rows, s.cols, s.cols};
}

Parameters::Statistic Parameters::statistic(int i) const {
  const StatisticSlot& s = statistics_[static_cast<std::size_t>(i)];
  const std::int64_t at = size_ + s.offset;
  return {s.name, {values_.as<float>().data() + at, 1, s.cols, s.cols}, at};
}

GradientView Parameters::gradient(int i) const {
  const Slot& s = slot(i);
  GradientView g;
  g.rows = s.rows;
  g.cols = s.cols;
  if (fp64_) {
    g.f64 = gradients_.as<double>().data() + s.offset;
  } else {
    g.f32 = gradients_.as<float>().data() + s.offset;
  }
  return g;
}

std::int64_t Parameters::weights() const {
  std::int64_t sum = 0;
  for (const Slot& s : slots_) sum += s.rows * s.cols;
  return sum;
}

std::int64_t Parameters::weights_and_statistics() const {
  std::int64_t sum = weights();
  for (const StatisticSlot& s : statistics_) sum += s.cols;
  return sum;
}

std::span<float> Parameters::flat_gradients_f32() const {
  return fp64_ ? std::span<float>() : gradients_.as<float>();
}

std::span<double> Parameters::flat_gradients_f64() const {
  return fp64_ ? gradients_.as<double>() : std::span<double>();
}

}  // namespace heliograph
