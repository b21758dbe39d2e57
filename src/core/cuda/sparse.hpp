#pragma once

#include "core/cuda/runtime.hpp"
#include "core/kernels.hpp"

// Products with sparse features: what core/kernels.hpp says, fp32 sums in entry order. Everything
// that the arguments point to lies on the device.

namespace heliograph::cuda {

void spmm(Queue& queue, const SparseView& x, ConstMatrixView b, bool accumulate, MatrixView c);
/// g: x.cols x d.cols, rows follow each other without padding.
void spmm_gradient(Queue& queue, const SparseColumnsView& x, const float* values, ConstMatrixView d,
                   float* g);
void dropout_values(Queue& queue, const SparseView& x, const Dropout& dropout, float* out);

}  // namespace heliograph::cuda
