#include "core/cuda/dropout.hpp"
#include "core/cuda/kernel_calls.hpp"
#include "core/cuda/launch.hpp"

namespace heliograph::cuda {
namespace {

/// Number of chunks of a row, of which a warp sums one: kColumns * 32 columns.
template <int kColumns>
constexpr std::int64_t chunks(std::int64_t cols) {
  return (cols + kColumns * kWarp - 1) / (kColumns * kWarp);
}

/// sums[k] += the sum over entries i in [begin, end) of value(i) * row(i)[first + lane + 32 k].
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

constexpr int kFeatureWarps = 8;  // warps of a block
/// A feature with more entries is summed by a whole block, since one warp could take longest of
/// all.
constexpr std::int64_t kLongFeature = 512;
/// Number of rows that are loaded at the same time, to cover the latency of memory.
constexpr int kFeatureAhead = 16;

/// One feature's entries [begin, end), and the column of its gradient that this lane sums.
struct FeatureChunk {
  std::int64_t feature;
  std::int64_t column;
  std::int64_t begin = 0;
  std::int64_t end = 0;  ///< Equals `begin` if there is no such feature.

  __device__ FeatureChunk(const SparseColumnsView& x, std::int64_t cols, std::int64_t warp)
      : feature(warp / chunks<1>(cols)), column(warp % chunks<1>(cols) * kWarp + lane()) {
    if (feature >= x.cols) return;
    begin = x.offsets[feature];
    end = x.offsets[feature + 1];
  }
};

/// The sum of the lane's column over entries [begin, end), which the warp looks up 32 at a time.
__device__ float feature_sum(const SparseColumnsView& x, const float* values, ConstMatrixView d,
                             std::int64_t begin, std::int64_t end, std::int64_t column) {
  const float* at = d.data + (column < d.cols ? column : 0);
  float sum = 0;
  for (std::int64_t i = begin; i < end; i += kWarp) {
    const int count = end - i < kWarp ? static_cast<int>(end - i) : kWarp;
    const std::int64_t mine = i + (lane() < count ? lane() : count - 1);
    const float factor = values[x.position[mine]];
    const std::int32_t row = x.row_of[mine];
    for (int k = 0; k < count; k += kFeatureAhead) {
      float some[kFeatureAhead];
#pragma unroll
      for (int u = 0; u < kFeatureAhead; ++u)
        some[u] = at[__shfl_sync(kWholeWarp, row, k + u) * d.stride];
#pragma unroll
      for (int u = 0; u < kFeatureAhead; ++u) {
        const float f = __shfl_sync(kWholeWarp, factor, k + u);
        if (k + u < count) sum = fmaf(f, some[u], sum);
      }
    }
  }
  return sum;
}

/// Each warp sums 32 columns of a feature; then all warps of a block sum each of its long features,
/// and their sums are added in the order of the warps.
__global__ void spmm_gradient_kernel(SparseColumnsView x, const float* values, ConstMatrixView d,
                                     float* g) {
  float* sums = shared_memory<float>();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t first = global_warp() - warp;
  const auto store = [&](const FeatureChunk& f, float sum) {
    if (f.column < d.cols) g[f.feature * d.cols + f.column] = sum;
  };
  const FeatureChunk mine(x, d.cols, first + warp);
  if (mine.feature < x.cols && mine.end - mine.begin <= kLongFeature) {
    store(mine, feature_sum(x, values, d, mine.begin, mine.end, mine.column));
  }
  for (int w = 0; w < kFeatureWarps; ++w) {
    const FeatureChunk f(x, d.cols, first + w);
    if (f.end - f.begin <= kLongFeature) continue;
    const std::int64_t share = (f.end - f.begin + kFeatureWarps - 1) / kFeatureWarps;
    const std::int64_t begin = f.begin + share * warp;
    const std::int64_t end = begin + share < f.end ? begin + share : f.end;
    float sum = feature_sum(x, values, d, begin, end, f.column);
    sums[warp * kWarp + lane()] = sum;
    __syncthreads();
    if (warp == w) {
      sum = 0;
      for (int other = 0; other < kFeatureWarps; ++other) sum += sums[other * kWarp + lane()];
      store(f, sum);
    }
    __syncthreads();
  }
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
  Grid grid = cover_by_warps(x.cols * chunks<1>(d.cols), kFeatureWarps * kWarp);
  grid.shared_bytes = kFeatureWarps * kWarp * sizeof(float);
  launch(queue, "gradient of a sparse product", spmm_gradient_kernel, grid, x, values, d, g);
}

void dropout_values(Queue& queue, const SparseView& x, const Dropout& dropout, float* out) {
  launch(queue, "dropout of sparse values", dropout_values_kernel, cover_by_warps(x.rows), x,
         keep_mask(dropout), out);
}

}  // namespace heliograph::cuda
