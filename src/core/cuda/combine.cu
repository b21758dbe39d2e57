#include <cmath>

#include "core/cuda/kernel_calls.hpp"
#include "core/cuda/launch.hpp"
#include "core/cuda/sums.hpp"

namespace heliograph::cuda {
namespace {

// One warp works on a row, or on every row of one partial sum; lane l has the columns l, l + 32,
// ...

/// The factor is alpha, times *factor if that is not null.
__global__ void axpby_kernel(float alpha, const float* factor, ConstMatrixView x, float beta,
                             MatrixView y) {
  const std::int64_t r = global_warp();
  if (r >= y.rows) return;
  const float a = factor != nullptr ? alpha * *factor : alpha;
  const float* in = x.row(r);
  float* out = y.row(r);
  for (std::int64_t c = lane(); c < y.cols; c += kWarp) {
    out[c] = beta == 0.0F ? a * in[c] : beta * out[c] + a * in[c];
  }
}

__global__ void dot_kernel(ConstMatrixView a, ConstMatrixView b, std::int64_t parts,
                           float* partials) {
  const std::int64_t part = global_warp();
  if (part >= parts) return;
  float sum = 0;
  for (std::int64_t r = part; r < a.rows; r += parts) {
    for (std::int64_t c = lane(); c < a.cols; c += kWarp) sum += a.row(r)[c] * b.row(r)[c];
  }
  sum = warp_sum(sum);
  if (lane() == 0) partials[part] = sum;
}

__device__ float row_dot(const float* a, const float* b, std::int64_t cols) {
  float sum = 0;
  for (std::int64_t c = lane(); c < cols; c += kWarp) sum += a[c] * b[c];
  return warp_sum(sum);
}

__global__ void gate_forward_kernel(ConstMatrixView x, const float* s, float* score,
                                    bool accumulate, MatrixView out) {
  const std::int64_t r = global_warp();
  if (r >= x.rows) return;
  const float* in = x.row(r);
  float* to = out.row(r);
  const float g = 1.0F / (1.0F + std::exp(-row_dot(in, s, x.cols)));
  if (lane() == 0) score[r] = g;
  for (std::int64_t c = lane(); c < x.cols; c += kWarp) {
    to[c] = (accumulate ? to[c] : 0.0F) + g * in[c];
  }
}

__global__ void gate_backward_kernel(ConstMatrixView x, const float* s, const float* score,
                                     ConstMatrixView d, MatrixView dx, std::int64_t parts,
                                     float* partials) {
  const std::int64_t part = global_warp();
  if (part >= parts) return;
  float* sums = partials + part * x.cols;  // Each lane touches only its own columns.
  for (std::int64_t c = lane(); c < x.cols; c += kWarp) sums[c] = 0;
  for (std::int64_t r = part; r < x.rows; r += parts) {
    const float* in = x.row(r);
    const float* g = d.row(r);
    const float t = score[r] * (1.0F - score[r]) * row_dot(g, in, x.cols);
    for (std::int64_t c = lane(); c < x.cols; c += kWarp) {
      dx.row(r)[c] = score[r] * g[c] + t * s[c];
      sums[c] += t * in[c];
    }
  }
}

__global__ void max_forward_kernel(ConstMatrixView x, MatrixView out) {
  const std::int64_t r = global_warp();
  if (r >= x.rows) return;
  const float* in = x.row(r);
  float* to = out.row(r);
  // Written so that NaN passes through.
  for (std::int64_t c = lane(); c < x.cols; c += kWarp)
    to[c] = in[c] > to[c] || in[c] != in[c] ? in[c] : to[c];
}

__global__ void max_backward_kernel(ConstMatrixView x, ConstMatrixView out, MatrixView d,
                                    MatrixView dx) {
  const std::int64_t r = global_warp();
  if (r >= x.rows) return;
  for (std::int64_t c = lane(); c < x.cols; c += kWarp) {
    const bool takes = x.row(r)[c] == out.row(r)[c];
    const float g = d.row(r)[c];
    dx.row(r)[c] = takes ? g : 0.0F;
    d.row(r)[c] = takes ? 0.0F : g;
  }
}

__global__ void batch_norm_backward_kernel(ConstMatrixView y, const float* gain, const float* mean,
                                           const float* rstd, const float* gain_mean,
                                           const float* shift_mean, MatrixView d) {
  const std::int64_t r = global_warp();
  if (r >= y.rows) return;
  float* g = d.row(r);
  for (std::int64_t c = lane(); c < y.cols; c += kWarp) {
    const float x = (y.row(r)[c] - mean[c]) * rstd[c];
    g[c] = gain[c] * rstd[c] * (g[c] - shift_mean[c] - x * gain_mean[c]);
  }
}

/// Each warp sums the moments of 32 columns of one part.
__global__ void column_moments_kernel(ConstMatrixView y, const float* center, std::int64_t parts,
                                      double* partials) {
  const std::int64_t part = global_warp() % parts;
  const std::int64_t c = global_warp() / parts * kWarp + lane();
  if (c >= y.cols) return;
  double first = 0, second = 0;
  for (std::int64_t r = part; r < y.rows; r += parts) {
    const double x = static_cast<double>(y.row(r)[c]) - static_cast<double>(center[c]);
    first += x;
    second += x * x;
  }
  partials[(2 * part) * y.cols + c] = first;
  partials[(2 * part + 1) * y.cols + c] = second;
}

/// Each thread adds the parts of one sum.
__global__ void add_moments_kernel(const double* partials, std::int64_t parts, std::int64_t width,
                                   double* sums) {
  const std::int64_t i = global_thread();
  if (i >= width) return;
  double sum = 0;
  for (std::int64_t p = 0; p < parts; ++p) sum += partials[p * width + i];
  sums[i] = sum;
}

}  // namespace

void axpby(Queue& queue, float alpha, const float* factor, ConstMatrixView x, float beta,
           MatrixView y) {
  launch(queue, "axpby", axpby_kernel, cover_by_warps(y.rows), alpha, factor, x, beta, y);
}

void dot(Queue& queue, ConstMatrixView a, ConstMatrixView b, float* partials, float* sum) {
  const std::int64_t parts = sum_parts(queue, a.rows);
  launch(queue, "dot product", dot_kernel, cover_by_warps(parts, kSumThreads), a, b, parts,
         partials);
  add_partials(queue, partials, parts, 1, 1, {sum, nullptr, nullptr});
}

void gate_forward(Queue& queue, ConstMatrixView x, const float* s, float* score, bool accumulate,
                  MatrixView out) {
  launch(queue, "gate forward", gate_forward_kernel, cover_by_warps(x.rows), x, s, score,
         accumulate, out);
}

void gate_backward(Queue& queue, ConstMatrixView x, const float* s, const float* score,
                   ConstMatrixView d, MatrixView dx, bool accumulate, float* partials, float* g) {
  const std::int64_t parts = sum_parts(queue, x.rows);
  float* const sums = partials;
  float* const rows = partials + x.cols;
  launch(queue, "gate backward", gate_backward_kernel, cover_by_warps(parts, kSumThreads), x, s,
         score, d, dx, parts, rows);
  add_partials(queue, rows, parts, x.cols, 1, {accumulate ? sums : g, nullptr, nullptr});
  if (!accumulate) return;
  axpby(queue, 1, nullptr, {sums, 1, x.cols, x.cols}, 1, {g, 1, x.cols, x.cols});
}

void max_forward(Queue& queue, ConstMatrixView x, MatrixView out) {
  launch(queue, "maximum forward", max_forward_kernel, cover_by_warps(x.rows), x, out);
}

void max_backward(Queue& queue, ConstMatrixView x, ConstMatrixView out, MatrixView d,
                  MatrixView dx) {
  launch(queue, "maximum backward", max_backward_kernel, cover_by_warps(x.rows), x, out, d, dx);
}

void batch_norm_backward(Queue& queue, ConstMatrixView y, const NormAct& p, const float* gain_mean,
                         const float* shift_mean, MatrixView d) {
  launch(queue, "BatchNorm backward", batch_norm_backward_kernel, cover_by_warps(y.rows), y, p.gain,
         static_cast<const float*>(p.mean), static_cast<const float*>(p.rstd), gain_mean,
         shift_mean, d);
}

void column_moments(Queue& queue, ConstMatrixView y, const float* center, double* partials,
                    double* sums) {
  const std::int64_t parts = moment_parts(y.rows);
  const std::int64_t warps = parts * ((y.cols + kWarp - 1) / kWarp);
  launch(queue, "moments of columns", column_moments_kernel, cover_by_warps(warps), y, center,
         parts, partials);
  launch(queue, "sums of moments", add_moments_kernel,
         cover_by_warps((2 * y.cols + kWarp - 1) / kWarp), static_cast<const double*>(partials),
         parts, 2 * y.cols, sums);
}

}  // namespace heliograph::cuda
