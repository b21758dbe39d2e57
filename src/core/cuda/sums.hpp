#pragma once

#include <cstdint>

#include "core/cuda/runtime.hpp"
#include "core/matrix.hpp"

// Sums over rows, in a fixed order: row r belongs to partial sum r % parts, and the parts are added
// in order. How many there are depends on the rows and the device only, so the same rows give the
// same bits there.

namespace heliograph::cuda {

/// The most partial sums over this many rows, on any device.
constexpr std::int64_t sum_parts(std::int64_t rows) {
  constexpr std::int64_t kMost = 4096;
  const std::int64_t parts = (rows + 3) / 4;
  return parts < kMost ? parts : kMost;
}

/// Warps of kernels that keep partial sums which a multiprocessor holds at once, so that no block
/// waits for another to end: kSumBlocks blocks of kSumThreads threads.
inline constexpr int kSumThreads = 256;
inline constexpr int kSumBlocks = 3;

/// Partial sums over this many rows on the queue's device, one a warp.
inline std::int64_t sum_parts(const Queue& queue, std::int64_t rows) {
  const std::int64_t held = std::int64_t{queue.processors()} * kSumBlocks * (kSumThreads / 32);
  const std::int64_t parts = sum_parts(rows);
  return parts < held ? parts : held;
}

/// partials: sum_parts(d.rows) x d.cols, overwritten.
void column_sums(Queue& queue, ConstMatrixView d, float* partials, float* sums);

/// sums[i][c] = the sum over p in [0, parts) of partials[p * (segments * cols) + i * cols + c], for
/// up to three segments.
void add_partials(Queue& queue, const float* partials, std::int64_t parts, std::int64_t cols,
                  int segments, float* const (&sums)[3]);

/// *sum = the sum of `parts` partial sums.
void add_partials(Queue& queue, const double* partials, std::int64_t parts, double* sum);

}  // namespace heliograph::cuda
