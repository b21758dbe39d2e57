#pragma once

#include "core/csr.hpp"
#include "core/cuda/runtime.hpp"
#include "core/matrix.hpp"
#include "core/packed_rows.hpp"

// The device's definitions of what core/cpu/aggregate.hpp says, fp32 sums in entry order within a
// row. Everything lies on the device but the views themselves.

namespace heliograph::cuda {

void aggregate_inner(Queue& queue, const CsrView& csr, ConstMatrixView x, const float* col_scale,
                     float self, const float* row_scale, MatrixView out);
void aggregate_inner_bf16(Queue& queue, const CsrView& csr, ConstMatrixView x,
                          const float* col_scale, float self, const float* row_scale,
                          MatrixView out, Bf16View stored);
void aggregate_halo(Queue& queue, const CsrView& csr, const PackedRows& packed,
                    const float* row_scale, MatrixView out);

}  // namespace heliograph::cuda
