#pragma once

#include "core/csr.hpp"
#include "core/matrix.hpp"
#include "core/packed_rows.hpp"
#include "core/thread_pool.hpp"

namespace heliograph::cpu {

/// fp64 accumulator of `--reproducible`; data == nullptr means fp32 accumulation.
using AccumulatorView = BasicMatrixView<double>;

/// out[i] = row_scale[i] * (self ? x'[i] : 0 + sum over j in row i of x'[j]),
/// where x'[j] = col_scale[j] * x[j], rounded to fp32 (null scales count as 1).
/// With an accumulator: acc[i] takes the unscaled fp64 sum and out[i] = float(row_scale[i] *
/// acc[i]). out: csr.rows x cols. Any width; out must not overlap x. The same bits whatever the
/// number of threads. Scales and columns are trusted.
void aggregate_inner(const CsrView& csr, ConstMatrixView x, const float* col_scale, bool self,
                     const float* row_scale, MatrixView out, AccumulatorView acc,
                     ThreadPool& threads);

/// The same, without an accumulator, on x' rounded to the nearest bf16 (ties to even): `stored`
/// takes these rows, so that half the bytes are gathered; sums are fp32. stored: x.rows x x.cols,
/// rows padded_stride<std::uint16_t>() apart, overwritten.
void aggregate_inner_bf16(const CsrView& csr, ConstMatrixView x, const float* col_scale, bool self,
                          const float* row_scale, MatrixView out, Bf16View stored,
                          ThreadPool& threads);

/// out[i] += row_scale[i] * (sum over j in row i of decode(packed.row(j))), straight from packed
/// rows, into columns [packed.col_begin, packed.col_begin + packed.cols) of out.
/// With an accumulator: acc[i] += the fp64 sum, out[i] = float(row_scale[i] * acc[i]).
/// Rows without entries are left alone.
void aggregate_halo(const CsrView& csr, const PackedRows& packed, const float* row_scale,
                    MatrixView out, AccumulatorView acc, ThreadPool& threads);

/// The plain loops that define the above (fp32 sums in entry order); for tests.
void aggregate_inner_reference(const CsrView& csr, ConstMatrixView x, const float* col_scale,
                               bool self, const float* row_scale, MatrixView out);
void aggregate_inner_bf16_reference(const CsrView& csr, ConstMatrixView x, const float* col_scale,
                                    bool self, const float* row_scale, MatrixView out);
void aggregate_halo_reference(const CsrView& csr, const PackedRows& packed, const float* row_scale,
                              MatrixView out);

}  // namespace heliograph::cpu
