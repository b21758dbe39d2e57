#pragma once

#include <cstddef>
#include <cstdint>

#include "core/csr.hpp"
#include "core/cuda/runtime.hpp"

namespace heliograph::cuda {

/// A sum of rows of values, fp32 or bf16, over the entries of each row of `csr`.
struct GatherJob {
  CsrView csr;
  const std::byte* rows = nullptr;  ///< Row j begins at rows + j * pitch.
  std::int64_t pitch = 0;           ///< Bytes, less than 2^32.
  std::int64_t cols = 0;
  const float* col_scale = nullptr;  ///< fp32 only: row j counts times this, rounded; null: 1.
  const float* row_scale = nullptr;  ///< Of the sum; null: 1.
  float* out = nullptr;              ///< csr.rows x cols.
  std::int64_t out_stride = 0;       ///< Elements.
  float self = 0;                    ///< The sum of row i begins with row i times this.
  /// Adds to `out` and leaves rows without entries alone; else replaces.
  bool add = false;
};

/// In entry order, products and sums rounded apart: the bits of the plain loops. May read whatever
/// shares an aligned 16 bytes with a row.
void gather_fp32(Queue& queue, const GatherJob& job);
void gather_bf16(Queue& queue, const GatherJob& job);

}  // namespace heliograph::cuda
