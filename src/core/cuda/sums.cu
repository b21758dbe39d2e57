#include "core/cuda/launch.hpp"
#include "core/cuda/sums.hpp"

namespace heliograph::cuda {
namespace {

/// Each warp sums 32 columns of one part.
__global__ void column_sums_kernel(ConstMatrixView d, std::int64_t parts, float* partials) {
  const std::int64_t part = global_warp() % parts;
  const std::int64_t column = global_warp() / parts * kWarp + lane();
  if (column >= d.cols) return;
  float sum = 0;
  for (std::int64_t r = part; r < d.rows; r += parts) sum += d.row(r)[column];
  partials[part * d.cols + column] = sum;
}

struct Segments {
  float* sums[3];
};

constexpr int kSlices = 32;

/// Each block adds the partial sums of 32 columns; each of its warps adds a run of parts.
__global__ void add_partials_kernel(const float* partials, std::int64_t parts, std::int64_t cols,
                                    std::int64_t width, Segments segments, bool accumulate) {
  float* slices = shared_memory<float>();
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarp + lane();
  const int slice = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t run = (parts + kSlices - 1) / kSlices;
  const std::int64_t end = run * (slice + 1) < parts ? run * (slice + 1) : parts;
  float sum = 0;
  if (column < width) {
    for (std::int64_t p = run * slice; p < end; ++p) sum += partials[p * width + column];
  }
  slices[slice * kWarp + lane()] = sum;
  __syncthreads();
  if (slice != 0 || column >= width) return;
  for (int s = 1; s < kSlices; ++s) sum += slices[s * kWarp + lane()];
  float* const to = segments.sums[column / cols];
  if (to != nullptr) to[column % cols] = accumulate ? to[column % cols] + sum : sum;
}

constexpr int kAdders = 256;

__global__ void add_doubles_kernel(const double* partials, std::int64_t parts, double* total) {
  double* sums = shared_memory<double>();
  double sum = 0;
  for (std::int64_t p = threadIdx.x; p < parts; p += kAdders) sum += partials[p];
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int t = 1; t < kAdders; ++t) sum += sums[t];
  *total = sum;
}

}  // namespace

void column_sums(Queue& queue, ConstMatrixView d, float* partials, float* sums) {
  const std::int64_t parts = sum_parts(queue, d.rows);
  const std::int64_t warps = parts * ((d.cols + kWarp - 1) / kWarp);
  launch(queue, "column sums", column_sums_kernel, cover_by_warps(warps), d, parts, partials);
  add_partials(queue, partials, parts, d.cols, 1, {sums, nullptr, nullptr});
}

void add_partials(Queue& queue, const float* partials, std::int64_t parts, std::int64_t cols,
                  int segments, float* const (&sums)[3], bool accumulate) {
  const std::int64_t width = cols * segments;
  const Grid grid{(width + kWarp - 1) / kWarp, kSlices * kWarp, kSlices * kWarp * sizeof(float)};
  launch(queue, "sums of columns", add_partials_kernel, grid, partials, parts, cols, width,
         Segments{{sums[0], sums[1], sums[2]}}, accumulate);
}

void add_partials(Queue& queue, const double* partials, std::int64_t parts, double* sum) {
  launch(queue, "sum of partial sums", add_doubles_kernel,
         Grid{1, kAdders, kAdders * sizeof(double)}, partials, parts, sum);
}

}  // namespace heliograph::cuda
