#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "core/kernels.hpp"

namespace heliograph {

/// The kind of a parameter, which decides its initial values.
enum class ParameterKind : std::uint8_t {
  weight,  ///< A matrix, initially random (Glorot and Bengio, 2010, equation 16); it decays.
  bias,    ///< A vector or a number, initially 0.
  gain,    ///< A vector, initially 1.
};

/// All weights of a model in one flat buffer and their gradients in another, equal on every rank.
/// Declare all parameters first, then allocate once.
class Parameters {
 public:
  /// Declares a rows x cols parameter and returns its index. Each begins padded_stride(rows * cols)
  /// values after the one before it.
  int declare(std::string name, std::int64_t rows, std::int64_t cols, ParameterKind kind);

  /// Declares a vector of `cols` values that is part of the model, begins with `initial` and has no
  /// gradient. Returns its index among the statistics, which lie as parameters do.
  int declare_statistic(std::string name, std::int64_t cols, float initial);

  /// Allocates both buffers. `account` counts the memory of the device that reads them; if it only
  /// counts, nothing is allocated. `fp64_gradients`: gradients stay in fp64 until they are summed
  /// over ranks (`--reproducible`).
  void allocate(bool fp64_gradients, MemoryAccount* account);

  /// Sets the initial value of every parameter, which depends only on the seed and the parameter's
  /// index. Does nothing if no memory was allocated.
  void initialise(std::uint64_t seed, Kernels& kernels);

  int count() const { return static_cast<int>(slots_.size()); }
  const std::string& name(int i) const { return slot(i).name; }
  ParameterKind kind(int i) const { return slot(i).kind; }
  bool decays(int i) const { return kind(i) == ParameterKind::weight; }
  MatrixView value(int i) const;
  struct Statistic {
    const std::string& name;
    MatrixView value;
    std::int64_t offset;  ///< Of the first value in flat_values().
  };
  int statistics() const { return static_cast<int>(statistics_.size()); }
  Statistic statistic(int i) const;
  GradientView gradient(int i) const;

  /// The number of values that have gradients, padding included.
  std::int64_t flat_size() const { return size_; }
  /// The number of weights, padding excluded.
  std::int64_t weights() const;
  /// The number of weights and statistics, padding excluded.
  std::int64_t weights_and_statistics() const;
  /// The flat buffers in the kernels' memory, with padding, which is zero. Values end with the
  /// statistics, which have no gradients. Only one of the two spans of gradients holds values; the
  /// other is empty.
  std::span<float> flat_values() const { return values_.as<float>(); }
  std::span<float> flat_gradients_f32() const;
  std::span<double> flat_gradients_f64() const;
  /// The position at which parameter i begins in the flat buffers; offset(count()) is the end of
  /// the last parameter.
  std::int64_t offset(int i) const { return i == count() ? size_ : slot(i).offset; }

 private:
  struct Slot {
    std::string name;
    std::int64_t rows, cols, offset;
    ParameterKind kind;
  };
  const Slot& slot(int i) const { return slots_[static_cast<std::size_t>(i)]; }

  struct StatisticSlot {
    std::string name;
    std::int64_t cols, offset;  ///< The offset counts from the end of the values with gradients.
    float initial;
  };

  std::vector<Slot> slots_;
  std::vector<StatisticSlot> statistics_;
  std::int64_t size_ = 0, statistics_size_ = 0;
  bool fp64_ = false;
  Buffer values_;
  Buffer gradients_;
};

}  // namespace heliograph
