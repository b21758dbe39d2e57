#pragma once

#include <cstdint>

#include "core/cuda/runtime.hpp"
#include "core/matrix.hpp"

// Sums over rows in a fixed order: row r belongs to partial sum r % parts, and the partial sums are
// added in order. Their number depends only on the number of rows and the device, so equal rows
// give equal bits on a device.

namespace heliograph::cuda {

/// Largest number of partial sums over this many rows on any device.
constexpr std::int64_t sum_parts(std::int64_t rows) {
  constexpr std::int64_t kMost = 4096;
  const std::int64_t parts = (rows + 3) / 4;
  return parts < kMost ? parts : kMost;
}

/// Threads of a block in kernels that keep partial sums.
inline constexpr int kSumThreads = 256;
/// Such blocks that fit a multiprocessor at once, so that no block waits for another to end.
inline constexpr int kSumBlocks = 3;

/// Number of partial sums over this many rows on the queue's device, one a warp.
inline std::int64_t sum_parts(const Queue& queue, std::int64_t rows) {
  const std::int64_t held = std::int64_t{queue.processors()} * kSumBlocks * (kSumThreads / 32);
  const std::int64_t parts = sum_parts(rows);
  return parts < held ? parts : held;
}

/// sums[c] = the sum of column c of d. `partials` has room for sum_parts(d.rows) x d.cols values.
void column_sums(Queue& queue, ConstMatrixView d, float* partials, float* sums);

/// sums[i][c] = the sum over p in [0, parts) of partials[p * (segments * cols) + i * cols + c], for
/// up to three segments; with `accumulate`, that is added to it. Segments whose pointer is null are
/// skipped.
void add_partials(Queue& queue, const float* partials, std::int64_t parts, std::int64_t cols,
                  int segments, float* const (&sums)[3], bool accumulate = false);

/// *sum = the sum of `parts` partial sums, in a fixed order.
void add_partials(Queue& queue, const double* partials, std::int64_t parts, double* sum);

}  // namespace heliograph::cuda
