#include <cmath>

#include "core/cuda/kernel_calls.hpp"
#include "core/cuda/launch.hpp"
#include "core/cuda/sums.hpp"

namespace heliograph::cuda {
namespace {

__global__ void sum_in_rank_order_kernel(float* mine, const float* others, std::int64_t count,
                                         std::int64_t stride, int rank, int ranks) {
  const std::int64_t i = global_thread();
  if (i >= count) return;
  float sum = 0;
  for (int r = 0; r < ranks; ++r) {
    const float value = r == rank ? mine[i] : others[(r < rank ? r : r - 1) * stride + i];
    sum = r == 0 ? value : sum + value;
  }
  mine[i] = sum;
}

/// Each warp makes one partial sum.
__global__ void squares_kernel(const float* values, std::int64_t count, double* partials) {
  const std::int64_t part = global_warp();
  if (part >= kSquareParts) return;
  double sum = 0;
  for (std::int64_t i = part * kWarp + lane(); i < count; i += kSquareParts * kWarp) {
    sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  sum = warp_sum(sum);
  if (lane() == 0) partials[part] = sum;
}

__global__ void adam_kernel(float* value, const float* gradient, float* m, float* v, AdamStep s,
                            std::int64_t count) {
  const std::int64_t i = global_thread();
  if (i >= count) return;
  const float g = gradient[i] * s.gradient_scale + s.weight_decay * value[i];
  const float first = s.beta1 * m[i] + (1.0F - s.beta1) * g;
  const float second = s.beta2 * v[i] + (1.0F - s.beta2) * g * g;
  m[i] = first;
  v[i] = second;
  value[i] -=
      s.decoupled_decay * value[i] +
      s.lr * (first / s.bias_correction1) / (std::sqrt(second / s.bias_correction2) + s.epsilon);
}

}  // namespace

void sum_in_rank_order(Queue& queue, float* mine, const float* others, std::int64_t count,
                       std::int64_t stride, int rank, int ranks) {
  launch(queue, "sum over ranks", sum_in_rank_order_kernel, cover(count), mine, others, count,
         stride, rank, ranks);
}

void sum_of_squares(Queue& queue, const float* values, std::int64_t count, double* partials,
                    double* sum) {
  launch(queue, "sum of squares", squares_kernel, cover_by_warps(kSquareParts), values, count,
         partials);
  add_partials(queue, partials, kSquareParts, sum);
}

void adam(Queue& queue, float* value, const float* gradient, float* m, float* v,
          const AdamStep& step, std::int64_t count) {
  launch(queue, "Adam", adam_kernel, cover(count), value, gradient, m, v, step, count);
}

}  // namespace heliograph::cuda
