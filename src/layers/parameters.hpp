#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "core/kernels.hpp"

namespace heliograph {

/// All weights of a model in one flat buffer, and their gradients in another: equal on every rank.
/// Declare first, then allocate once.
class Parameters {
 public:
  /// Returns the parameter's index. `decay`: a weight matrix, initialised at random and subject to
  /// weight decay; biases, gains and shifts are neither.
  int declare(std::string name, std::int64_t rows, std::int64_t cols, bool decay);

  /// With an account that only counts there are no values, and nothing to initialise.
  /// `fp64_gradients`: gradients stay in double until ranks are summed (`--reproducible`).
  void allocate(bool fp64_gradients, MemoryAccount* account);

  /// Glorot and Bengio, 2010, eq. 16 for weight matrices, 0 for the others; gains are set by their
  /// owner. Depends on the seed and the parameter's index only.
  void initialise(std::uint64_t seed);

  int count() const { return static_cast<int>(slots_.size()); }
  const std::string& name(int i) const { return slot(i).name; }
  bool decays(int i) const { return slot(i).decay; }
  MatrixView value(int i) const;
  GradientView gradient(int i) const;

  /// Values in each of the flat buffers, padding included.
  std::int64_t flat_size() const { return size_; }
  /// Number of weights, padding excluded.
  std::int64_t weights() const;
  /// The whole buffers, padding (zero) included; one of the gradients is empty.
  std::span<float> flat_values() const { return values_.as<float>(); }
  std::span<float> flat_gradients_f32() const;
  std::span<double> flat_gradients_f64() const;
  /// Where parameter i begins in them; of `count()`: where the last one ends.
  std::int64_t offset(int i) const { return i == count() ? size_ : slot(i).offset; }

 private:
  struct Slot {
    std::string name;
    std::int64_t rows, cols, offset;
    bool decay;
  };
  const Slot& slot(int i) const { return slots_[static_cast<std::size_t>(i)]; }

  std::vector<Slot> slots_;
  std::int64_t size_ = 0;
  bool fp64_ = false;
  Buffer values_;
  Buffer gradients_;
};

}  // namespace heliograph
