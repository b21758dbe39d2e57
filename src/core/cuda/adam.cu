#include <cmath>

#include "core/cuda/kernel_calls.hpp"
#include "core/cuda/launch.hpp"

namespace heliograph::cuda {
namespace {

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

void adam(Queue& queue, float* value, const float* gradient, float* m, float* v,
          const AdamStep& step, std::int64_t count) {
  launch(queue, "Adam", adam_kernel, cover(count), value, gradient, m, v, step, count);
}

}  // namespace heliograph::cuda
