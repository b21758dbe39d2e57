#pragma once

#include <cstdint>

#include "core/cuda/runtime.hpp"
#include "core/matrix.hpp"

// Losses of rows and their gradients: what core/kernels.hpp says. A row's loss is summed in fp64;
// NaN in a row, or Inf, makes its loss NaN or Inf. Everything that the arguments point to lies on
// the device.

namespace heliograph::cuda {

/// The most doubles that the losses of `rows` rows want as `partials`.
std::int64_t loss_partials(std::int64_t rows);

/// Both leave the sum of losses in *sum.
void softmax_cross_entropy(Queue& queue, ConstMatrixView logits, const std::int32_t* target,
                           float scale, MatrixView d, double* partials, double* sum);
void binary_cross_entropy(Queue& queue, ConstMatrixView logits, const std::uint8_t* indicators,
                          const std::uint8_t* mask, float scale, MatrixView d, double* partials,
                          double* sum);

}  // namespace heliograph::cuda
