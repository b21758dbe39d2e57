#pragma once

#include "core/kernels.hpp"

// Row-wise kernels of one rank: each function works on rows [begin, end), single-threaded, and is
// compiled for every SIMD target (rows.cpp). Templates on the type that sums are kept in.

namespace heliograph::cpu {

void norm_act_forward_rows(ConstMatrixView y, const NormAct& p, ConstMatrixView residual,
                           MatrixView out, bool fp64, std::int64_t begin, std::int64_t end);

/// `partial`: 3 * cols sums (bias, gain, shift) of these rows, overwritten; float or double. Room
/// for 4 * cols is needed.
void norm_act_backward_rows(ConstMatrixView y, const NormAct& p, MatrixView d,
                            MatrixView residual_gradient, void* partial, bool fp64,
                            std::int64_t begin, std::int64_t end);

/// `partial`: cols sums, overwritten; float or double.
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
