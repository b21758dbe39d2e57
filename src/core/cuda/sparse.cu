#include "core/cuda/dropout.hpp"
#include "core/cuda/launch.hpp"
#include "core/cuda/sparse.hpp"

namespace heliograph::cuda {
namespace {

/// A warp sums kColumns * 32 columns of one row.
template <int kColumns>
constexpr std::int64_t chunks(std::int64_t cols) {
  return (cols + kColumns * kWarp - 1) / (kColumns * kWarp);
}

/// The sum over entries [begin, end) of value(i) * row(i)[c], for the columns first + lane + 32 k.
template <int kColumns, class Value, class Row>
__device__ void sparse_sum(std::int64_t begin, std::int64_t end, std::int64_t first,
                           std::int64_t cols, const Value& value, const Row& row,
                           float (&sums)[kColumns]) {
  const std::int64_t column = first + lane();
#pragma unroll 4
  for (std::int64_t i = begin; i < end; ++i) {
    const float factor = value(i);
    const float* from = row(i) + column;
#pragma unroll
    for (int k = 0; k < kColumns; ++k) {
      if (column + k * kWarp < cols) sums[k] = fmaf(factor, from[k * kWarp], sums[k]);
    }
  }
}

template <int kColumns>
__global__ void spmm_kernel(SparseView x, ConstMatrixView b, bool accumulate, MatrixView out) {
  const std::int64_t r = global_warp() / chunks<kColumns>(out.cols);
  if (r >= x.rows) return;
  const std::int64_t first = global_warp() % chunks<kColumns>(out.cols) * kColumns * kWarp;
  float sums[kColumns] = {};
  sparse_sum<kColumns>(
      x.offsets[r], x.offsets[r + 1], first, out.cols, [&](std::int64_t i) { return x.values[i]; },
      [&](std::int64_t i) { return b.row(x.columns[i]); }, sums);
#pragma unroll
  for (int k = 0; k < kColumns; ++k) {
    const std::int64_t c = first + lane() + k * kWarp;
    if (c >= out.cols) continue;
    float* to = out.row(r) + c;
    *to = accumulate ? sums[k] + *to : sums[k];
  }
}

/// One column a lane: what is summed here is long, and there are few rows of it.
__global__ void spmm_gradient_kernel(SparseColumnsView x, const float* values, ConstMatrixView d,
                                     float* g) {
  const std::int64_t f = global_warp() / chunks<1>(d.cols);
  if (f >= x.cols) return;
  const std::int64_t first = global_warp() % chunks<1>(d.cols) * kWarp;
  float sums[1] = {};
  sparse_sum<1>(
      x.offsets[f], x.offsets[f + 1], first, d.cols,
      [&](std::int64_t i) { return values[x.position[i]]; },
      [&](std::int64_t i) { return d.row(x.row_of[i]); }, sums);
  if (first + lane() < d.cols) g[f * d.cols + first + lane()] = sums[0];
}

__global__ void dropout_values_kernel(SparseView x, KeepMask mask, float* out) {
  const std::int64_t r = global_warp();
  if (r >= x.rows) return;
  const std::uint64_t key = keep_key(mask, r);
  for (std::int64_t i = x.offsets[r] + lane(); i < x.offsets[r + 1]; i += kWarp) {
    out[i] = x.values[i] * keep_factor(mask, key, x.columns[i]);
  }
}

}  // namespace

void spmm(Queue& queue, const SparseView& x, ConstMatrixView b, bool accumulate, MatrixView c) {
  // Narrow outputs would leave most lanes of a wide chunk without a column.
  if (c.cols <= 2 * kWarp) {
    launch(queue, "sparse product", spmm_kernel<1>, cover_by_warps(x.rows * chunks<1>(c.cols)), x,
           b, accumulate, c);
  } else {
    launch(queue, "sparse product", spmm_kernel<4>, cover_by_warps(x.rows * chunks<4>(c.cols)), x,
           b, accumulate, c);
  }
}

void spmm_gradient(Queue& queue, const SparseColumnsView& x, const float* values, ConstMatrixView d,
                   float* g) {
  launch(queue, "gradient of a sparse product", spmm_gradient_kernel,
         cover_by_warps(x.cols * chunks<1>(d.cols)), x, values, d, g);
}

void dropout_values(Queue& queue, const SparseView& x, const Dropout& dropout, float* out) {
  launch(queue, "dropout of sparse values", dropout_values_kernel, cover_by_warps(x.rows), x,
         keep_mask(dropout), out);
}

}  // namespace heliograph::cuda
