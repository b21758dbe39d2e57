#pragma once

#include "core/cuda/runtime.hpp"
#include "core/kernels.hpp"

// Row-wise kernels: what core/kernels.hpp says, one warp a row. Everything that the arguments point
// to lies on the device.

namespace heliograph::cuda {

void norm_act_forward(Queue& queue, ConstMatrixView y, const NormAct& p, ConstMatrixView residual,
                      MatrixView out);

/// The most floats that norm_act_backward wants as `partials`.
std::int64_t norm_act_partials(std::int64_t rows, std::int64_t cols, const NormAct& p);
void norm_act_backward(Queue& queue, ConstMatrixView y, const NormAct& p, MatrixView d,
                       MatrixView residual_gradient, const NormActGradients& g, float* partials);

void add_bias(Queue& queue, MatrixView y, const float* bias);
void add(Queue& queue, MatrixView a, ConstMatrixView b);
void dropout(Queue& queue, ConstMatrixView x, const Dropout& dropout, MatrixView out);

}  // namespace heliograph::cuda
