#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "core/kernels.hpp"

namespace heliograph {

/// What a parameter is, which says how it begins.
enum class ParameterKind : std::uint8_t {
  weight,  ///< A matrix: random (Glorot and Bengio, 2010, eq. 16), subject to weight decay.
  bias,    ///< 0.
  gain,    ///< 1.
};

/// All weights of a model in one flat buffer, and their gradients in another: equal on every rank.
/// Declare first, then allocate once.
class Parameters {
 public:
  /// Returns the parameter's index.
  int declare(std::string name, std::int64_t rows, std::int64_t cols, ParameterKind kind);

  /// With an account that only counts there are no values, and nothing to initialise. `account`: of
  /// the memory of the kernels that read them.
  /// `fp64_gradients`: gradients stay in double until ranks are summed (`--reproducible`).
  void allocate(bool fp64_gradients, MemoryAccount* account);

  /// Gives every parameter the value that it begins with. Depends on the seed and the parameter's
  /// index only.
  void initialise(std::uint64_t seed, Kernels& kernels);

  int count() const { return static_cast<int>(slots_.size()); }
  const std::string& name(int i) const { return slot(i).name; }
  ParameterKind kind(int i) const { return slot(i).kind; }
  bool decays(int i) const { return kind(i) == ParameterKind::weight; }
  MatrixView value(int i) const;
  GradientView gradient(int i) const;

  /// Values in each of the flat buffers, padding included.
  std::int64_t flat_size() const { return size_; }
  /// Number of weights, padding excluded.
  std::int64_t weights() const;
  /// The whole buffers where kernels read them, padding (zero) included; one of the gradients is
  /// empty.
  std::span<float> flat_values() const { return values_.as<float>(); }
  std::span<float> flat_gradients_f32() const;
  std::span<double> flat_gradients_f64() const;
  /// Where parameter i begins in them; of `count()`: where the last one ends.
  std::int64_t offset(int i) const { return i == count() ? size_ : slot(i).offset; }

 private:
  struct Slot {
    std::string name;
    std::int64_t rows, cols, offset;
    ParameterKind kind;
  };
  const Slot& slot(int i) const { return slots_[static_cast<std::size_t>(i)]; }

  std::vector<Slot> slots_;
  std::int64_t size_ = 0;
  bool fp64_ = false;
  Buffer values_;
  Buffer gradients_;
};

}  // namespace heliograph
