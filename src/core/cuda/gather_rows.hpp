#pragma once

#include <cstddef>
#include <cstdint>

#include "core/csr.hpp"
#include "core/cuda/runtime.hpp"

namespace heliograph::cuda {

/// The task of summing fp32 or bf16 rows, each times its entry's value, over the entries of each
/// row of `csr`.
struct GatherJob {
  CsrView csr;
  const std::byte* rows = nullptr;  ///< Row j begins at rows + j * pitch.
  std::int64_t pitch = 0;           ///< Bytes, less than 2^32.
  std::int64_t cols = 0;
  const float* col_scale = nullptr;  ///< Factor of each summed row, fp32 rows only; null is 1.
  const float* row_scale = nullptr;  ///< Factor of each sum; null is 1.
  float* out = nullptr;              ///< csr.rows x cols.
  std::int64_t out_stride = 0;       ///< Row stride of `out` in elements.
  float self = 0;                    ///< The sum of row i begins with row i times this.
  /// Whether sums are added to `out`, without rows that have no entries, or replace it.
  bool add = false;
};

// Sum in entry order, with products and sums rounded separately: the bits of plain loops. They may
// read any byte of the aligned 16 bytes that a row begins or ends in.
void gather_fp32(Queue& queue, const GatherJob& job);
void gather_bf16(Queue& queue, const GatherJob& job);

}  // namespace heliograph::cuda
