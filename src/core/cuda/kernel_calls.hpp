#pragma once

#include <cstdint>

#include "core/cuda/runtime.hpp"
#include "core/kernels.hpp"

// The kernels of Kernels (core/kernels.hpp) on a CUDA device, except aggregation and dense
// products. All pointers are to device memory.

namespace heliograph::cuda {

// Row by row, one warp a row (rows.cu).

void norm_act_forward(Queue& queue, ConstMatrixView y, const NormAct& p, ConstMatrixView residual,
                      MatrixView out);

/// Number of floats that suffices for `partials` of norm_act_backward.
std::int64_t norm_act_partials(std::int64_t rows, std::int64_t cols, const NormAct& p);
void norm_act_backward(Queue& queue, ConstMatrixView y, const NormAct& p, MatrixView d,
                       MatrixView residual_gradient, const NormActGradients& g, float* partials);

void dropout(Queue& queue, ConstMatrixView x, const Dropout& dropout, MatrixView out);

// Combinations of matrices (combine.cu).

/// y = alpha x + beta y, with alpha times *factor if that is not null.
void axpby(Queue& queue, float alpha, const float* factor, ConstMatrixView x, float beta,
           MatrixView y);
/// `partials` has room for sum_parts(a.rows) values.
void dot(Queue& queue, ConstMatrixView a, ConstMatrixView b, float* partials, float* sum);
void gate_forward(Queue& queue, ConstMatrixView x, const float* s, float* score, bool accumulate,
                  MatrixView out);
/// `partials` has room for (sum_parts(x.rows) + 1) x x.cols values.
void gate_backward(Queue& queue, ConstMatrixView x, const float* s, const float* score,
                   ConstMatrixView d, MatrixView dx, bool accumulate, float* partials, float* g);
void max_forward(Queue& queue, ConstMatrixView x, MatrixView out);
void max_backward(Queue& queue, ConstMatrixView x, ConstMatrixView out, MatrixView d,
                  MatrixView dx);

/// Number of partial sums of column_moments over this many rows.
constexpr std::int64_t moment_parts(std::int64_t rows) {
  constexpr std::int64_t kMost = 512;
  const std::int64_t parts = (rows + 15) / 16;
  return parts < 1 ? 1 : parts < kMost ? parts : kMost;
}
/// Overwrites `sums`, 2 y.cols values on the device. `partials` has room for moment_parts(y.rows)
/// as many.
void column_moments(Queue& queue, ConstMatrixView y, const float* center, double* partials,
                    double* sums);
void batch_norm_backward(Queue& queue, ConstMatrixView y, const NormAct& p, const float* gain_mean,
                         const float* shift_mean, MatrixView d);

// Losses of rows and their gradients (loss.cu), which write the sum of losses to *sum. Losses are
// summed in fp64; a row with NaN or Inf has a loss of NaN or Inf.

/// Number of doubles that suffices for `partials` of the losses of `rows` rows.
std::int64_t loss_partials(std::int64_t rows);

void softmax_cross_entropy(Queue& queue, ConstMatrixView logits, const ClassTargets& targets,
                           float scale, MatrixView d, double* partials, double* sum);
void binary_cross_entropy(Queue& queue, ConstMatrixView logits, const std::uint8_t* indicators,
                          const std::uint8_t* mask, float scale, MatrixView d, double* partials,
                          double* sum);
void squared_error(Queue& queue, ConstMatrixView values, const float* target, float scale,
                   MatrixView d, double* partials, double* sum);

// Products with sparse features, fp32 sums in entry order (sparse.cu).

void spmm(Queue& queue, const SparseView& x, ConstMatrixView b, bool accumulate, MatrixView c);
/// g = x^T d: x.cols x d.cols, without padding between rows.
void spmm_gradient(Queue& queue, const SparseColumnsView& x, const float* values, ConstMatrixView d,
                   float* g);
void dropout_values(Queue& queue, const SparseView& x, const Dropout& dropout, float* out);

// The update of weights (update.cu).

void sum_in_rank_order(Queue& queue, float* mine, const float* others, std::int64_t count,
                       std::int64_t stride, int rank, int ranks);
/// Number of partial sums of sum_of_squares.
inline constexpr std::int64_t kSquareParts = 1024;
/// `partials` has room for kSquareParts values.
void sum_of_squares(Queue& queue, const float* values, std::int64_t count, double* partials,
                    double* sum);
/// One step of Adam on `count` values.
void adam(Queue& queue, float* value, const float* gradient, float* m, float* v,
          const AdamStep& step, std::int64_t count);

}  // namespace heliograph::cuda
