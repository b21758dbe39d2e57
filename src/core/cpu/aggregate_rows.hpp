#pragma once

#include "core/cpu/aggregate.hpp"

// Aggregation of output rows [begin, end), or, along csr.blocks, of those of a tile: of more
// columns than kFewestColumns, and of halo rows in fp32 only. Both leave the same bits.

namespace heliograph::cpu {

void aggregate_inner_rows(const CsrView& csr, ConstMatrixView x, const float* col_scale, float self,
                          const float* row_scale, MatrixView out, std::int64_t begin,
                          std::int64_t end);
void aggregate_inner_tile(const CsrView& csr, ConstMatrixView x, const float* col_scale, float self,
                          const float* row_scale, MatrixView out, std::int64_t tile);
void aggregate_halo_rows(const CsrView& csr, const PackedRows& packed, const float* row_scale,
                         MatrixView out, std::int64_t begin, std::int64_t end);
void aggregate_halo_tile(const CsrView& csr, const PackedRows& packed, const float* row_scale,
                         MatrixView out, std::int64_t tile);

/// stored[r] = the nearest bf16 of col_scale[r] * x[r] (null: 1), for rows [begin, end) of x.
void store_bf16_rows(ConstMatrixView x, const float* col_scale, Bf16View stored, std::int64_t begin,
                     std::int64_t end);
/// aggregate_inner_rows on rows that were stored so.
void aggregate_bf16_rows(const CsrView& csr, Bf16View stored, float self, const float* row_scale,
                         MatrixView out, std::int64_t begin, std::int64_t end);
void aggregate_bf16_tile(const CsrView& csr, Bf16View stored, float self, const float* row_scale,
                         MatrixView out, std::int64_t tile);

/// Inner and halo rows with fp64 sums; plain loops, since exactness and not speed is their purpose.
void aggregate_inner_rows_fp64(const CsrView& csr, ConstMatrixView x, const float* col_scale,
                               float self, const float* row_scale, MatrixView out,
                               AccumulatorView acc, std::int64_t begin, std::int64_t end);
void aggregate_halo_rows_fp64(const CsrView& csr, const PackedRows& packed, const float* row_scale,
                              MatrixView out, AccumulatorView acc, std::int64_t begin,
                              std::int64_t end);

}  // namespace heliograph::cpu
