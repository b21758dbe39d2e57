#pragma once

#include "core/kernels.hpp"

// Row-wise kernels of Kernels (core/kernels.hpp) over [begin, end): single-threaded, and compiled
// for every Highway target. `fp64` selects the type of the sums.

namespace heliograph::cpu {

void norm_act_forward_rows(ConstMatrixView y, const NormAct& p, ConstMatrixView residual,
                           MatrixView out, bool fp64, std::int64_t begin, std::int64_t end);

/// Writes the gradients of bias, gain and shift over these rows to the first 3 * cols values of
/// `partial`, double if `fp64`, else float. `partial` must have room for 4 * cols values.
void norm_act_backward_rows(ConstMatrixView y, const NormAct& p, MatrixView d,
                            MatrixView residual_gradient, void* partial, bool fp64,
                            std::int64_t begin, std::int64_t end);

/// Writes the sums of these rows' columns to `partial`: cols values, double if `fp64`, else float.
void column_sums_rows(ConstMatrixView d, void* partial, bool fp64, std::int64_t begin,
                      std::int64_t end);

void dropout_rows(ConstMatrixView x, const Dropout& dropout, MatrixView out, std::int64_t begin,
                  std::int64_t end);

void add_bias_rows(MatrixView y, const float* bias, std::int64_t begin, std::int64_t end);

void add_rows(MatrixView a, ConstMatrixView b, std::int64_t begin, std::int64_t end);

void spmm_rows(const SparseView& x, ConstMatrixView b, bool accumulate, MatrixView c, bool fp64,
               std::int64_t begin, std::int64_t end);

void spmm_gradient_columns(const SparseColumnsView& x, const float* values, ConstMatrixView d,
                           GradientView g, std::int64_t begin, std::int64_t end);

void adam_range(float* value, const float* gradient, float* m, float* v, const AdamStep& step,
                std::int64_t count);

}  // namespace heliograph::cpu
