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

/// As Kernels::batch_norm_backward, with the sums divided by the number of rows.
void batch_norm_backward_rows(ConstMatrixView y, const NormAct& p, const float* gain_mean,
                              const float* shift_mean, MatrixView d, std::int64_t begin,
                              std::int64_t end);

/// Overwrites `sums`, 2 * cols values, as Kernels::column_moments.
void column_moments_rows(ConstMatrixView y, const float* center, double* sums, std::int64_t begin,
                         std::int64_t end);

/// Writes the sums of these rows' columns to `partial`: cols values, double if `fp64`, else float.
void column_sums_rows(ConstMatrixView d, void* partial, bool fp64, std::int64_t begin,
                      std::int64_t end);

void dropout_rows(ConstMatrixView x, const Dropout& dropout, MatrixView out, std::int64_t begin,
                  std::int64_t end);

void axpby_rows(float alpha, ConstMatrixView x, float beta, MatrixView y, std::int64_t begin,
                std::int64_t end);

/// The sum of these rows' dot products; each row's is summed in fp64 if `fp64`, else in fp32.
double dot_rows(ConstMatrixView a, ConstMatrixView b, bool fp64, std::int64_t begin,
                std::int64_t end);

void gate_forward_rows(ConstMatrixView x, const float* s, float* score, bool accumulate,
                       MatrixView out, bool fp64, std::int64_t begin, std::int64_t end);

/// Writes the gradient of s over these rows to `partial`: cols values, double if `fp64`.
void gate_backward_rows(ConstMatrixView x, const float* s, const float* score, ConstMatrixView d,
                        MatrixView dx, void* partial, bool fp64, std::int64_t begin,
                        std::int64_t end);

void max_forward_rows(ConstMatrixView x, MatrixView out, std::int64_t begin, std::int64_t end);

void max_backward_rows(ConstMatrixView x, ConstMatrixView out, MatrixView d, MatrixView dx,
                       std::int64_t begin, std::int64_t end);

void spmm_rows(const SparseView& x, ConstMatrixView b, bool accumulate, MatrixView c, bool fp64,
               std::int64_t begin, std::int64_t end);

void spmm_gradient_columns(const SparseColumnsView& x, const float* values, ConstMatrixView d,
                           GradientView g, std::int64_t begin, std::int64_t end);

void adam_range(float* value, const float* gradient, float* m, float* v, const AdamStep& step,
                std::int64_t count);

}  // namespace heliograph::cpu
