#pragma once

#include "core/cpu/aggregate.hpp"

// Single-threaded aggregation of output rows [begin, end) or of one tile of csr.blocks, with the
// same bits. Tiles need at least GatherBlocks::kFewestColumns columns, and halo rows in fp32.

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

/// stored[r] = col_scale[r] * x[r] in the nearest bf16, for r in [begin, end); a null scale is 1.
void store_bf16_rows(ConstMatrixView x, const float* col_scale, Bf16View stored, std::int64_t begin,
                     std::int64_t end);
/// aggregate_inner_rows on the rows that store_bf16_rows wrote.
void aggregate_bf16_rows(const CsrView& csr, Bf16View stored, float self, const float* row_scale,
                         MatrixView out, std::int64_t begin, std::int64_t end);
void aggregate_bf16_tile(const CsrView& csr, Bf16View stored, float self, const float* row_scale,
                         MatrixView out, std::int64_t tile);

/// acc[c] += weight * value c of one packed row of `cols` columns, decoded in fp64.
void add_decoded_row(const std::byte* row, RowFormat format, std::int64_t cols, double weight,
                     double* acc);

/// Aggregation with fp64 sums, in plain loops: it serves reproducibility, not speed.
void aggregate_inner_rows_fp64(const CsrView& csr, ConstMatrixView x, const float* col_scale,
                               float self, const float* row_scale, MatrixView out,
                               AccumulatorView acc, std::int64_t begin, std::int64_t end);
void aggregate_halo_rows_fp64(const CsrView& csr, const PackedRows& packed, const float* row_scale,
                              MatrixView out, AccumulatorView acc, std::int64_t begin,
                              std::int64_t end);

}  // namespace heliograph::cpu
