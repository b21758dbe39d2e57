#pragma once

#include "core/csr.hpp"
#include "core/cuda/runtime.hpp"
#include "core/matrix.hpp"
#include "core/packed_rows.hpp"

// The aggregation kernels of Kernels (core/kernels.hpp) on a CUDA device. Sums are fp32, in entry
// order within a row. The views are host objects that point to device memory.

namespace heliograph::cuda {

void aggregate_inner(Queue& queue, const CsrView& csr, ConstMatrixView x, const float* col_scale,
                     float self, const float* row_scale, MatrixView out);
void aggregate_inner_bf16(Queue& queue, const CsrView& csr, ConstMatrixView x,
                          const float* col_scale, float self, const float* row_scale,
                          MatrixView out, Bf16View stored);
void aggregate_halo(Queue& queue, const CsrView& csr, const PackedRows& packed,
                    const float* row_scale, MatrixView out);

}  // namespace heliograph::cuda
