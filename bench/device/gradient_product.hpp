#pragma once

#include <memory>

#include "core/buffer.hpp"
#include "core/cuda/runtime.hpp"
#include "core/matrix.hpp"

namespace heliograph::bench {

/// Weight gradients g = a^T d by cuBLAS with the settings of the engine (src/core/cuda/gemm.cpp: a
/// workspace of its own and no atomics), in pedantic or in default fp32 mode. Sums are as long as
/// the matrices have rows. cuBLAS documents that algorithms which split such sums add the parts up
/// deterministically, and that a workspace for each stream keeps the bits of every run; of pedantic
/// mode it says only that it may be slower.
class GradientProduct {
 public:
  /// Throws Error(resource). `queue` and the memory of `account` must outlive the object.
  GradientProduct(cuda::Queue& queue, bool pedantic, MemoryAccount& account);
  ~GradientProduct();
  GradientProduct(const GradientProduct&) = delete;
  GradientProduct& operator=(const GradientProduct&) = delete;

  /// g: a.cols x d.cols values without padding.
  void run(ConstMatrixView a, ConstMatrixView d, float* g);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heliograph::bench
