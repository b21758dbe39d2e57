#pragma once

#include "core/csr.hpp"
#include "core/matrix.hpp"
#include "core/packed_rows.hpp"
#include "core/thread_pool.hpp"

namespace heliograph::cpu {

// Aggregation of Kernels (core/kernels.hpp) on a CPU, with the same bits for any number of threads.

void aggregate_inner(const CsrView& csr, ConstMatrixView x, const float* col_scale, float self,
                     const float* row_scale, MatrixView out, AccumulatorView acc,
                     ThreadPool& threads);
void aggregate_inner_bf16(const CsrView& csr, ConstMatrixView x, const float* col_scale, float self,
                          const float* row_scale, MatrixView out, Bf16View stored,
                          ThreadPool& threads);
void aggregate_halo(const CsrView& csr, const PackedRows& packed, const float* row_scale,
                    MatrixView out, AccumulatorView acc, ThreadPool& threads);

}  // namespace heliograph::cpu
