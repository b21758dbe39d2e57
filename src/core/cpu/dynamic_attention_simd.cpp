#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cpu/dynamic_attention.hpp"
#include "core/cpu/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/dynamic_attention_simd.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// after foreach_target
#include <hwy/highway.h>

#include "core/cpu/row_loops-inl.hpp"

// Plain loops over the columns of a head, which the compiler vectorises for each target.

HWY_BEFORE_NAMESPACE();
namespace heliograph::cpu {
namespace HWY_NAMESPACE {

/// Calls visit(block, neighbour) for each entry of row i, in a fixed order.
template <class Visit>
HWY_INLINE void each_entry(const DynamicAttention& a, std::int64_t i, const Visit& visit) {
  for (const DynamicBlock* block : {&a.inner, &a.halo}) {
    if (i >= block->csr.rows) continue;
    if (block->own_rows) visit(*block, static_cast<std::int32_t>(block->first + i));
    for (std::int64_t e = block->csr.offsets[i]; e < block->csr.offsets[i + 1]; ++e) {
      visit(*block, block->csr.columns[e]);
    }
  }
}

/// The part of LeakyReLU(x) that multiplies x.
template <class T>
HWY_INLINE T leak(T x, T slope) {
  return x > 0 ? T{1} : slope;
}

template <class T>
HWY_INLINE T score_of(const float* vector, const float* source, const float* target,
                      std::int64_t cols, T slope) {
  return lane_sum<T>(cols, [&](std::int64_t c) {
    const T x = static_cast<T>(source[c]) + static_cast<T>(target[c]);
    return static_cast<T>(vector[c]) * leak(x, slope) * x;
  });
}

/// One edge and head of backward.
template <class T>
struct EdgeGradient {
  T weight;  ///< After dropout.
  T score;   ///< The gradient of the score.
};
template <class T>
HWY_INLINE EdgeGradient<T> edge_gradient(const DynamicAttention& a, std::int64_t h,
                                         const float* source, const float* target, T keep) {
  const std::int64_t cols = a.head_cols(), at = h * cols;
  const T score =
      score_of<T>(a.vector + at, source + at, target + at, cols, static_cast<T>(a.slope));
  const T exponent = score - static_cast<T>(a.log_total(target, h));
  const T alpha = std::exp(exponent > 0 ? T{0} : exponent);  // Late totals may be too small.
  const float* const d = a.gradient(target, h);
  const T dot = lane_sum<T>(
      cols, [&](std::int64_t c) { return static_cast<T>(d[c]) * static_cast<T>(source[at + c]); });
  return {alpha * keep, alpha * (keep * dot - static_cast<T>(a.product(target, h)))};
}

template <class T>
void attend(const DynamicAttention& a, MatrixView out, MatrixView log_total, T* sums,
            std::int64_t begin, std::int64_t end) {
  const std::int64_t cols = a.head_cols();
  T* const highest = sums + a.cols;
  T* const totals = highest + a.heads;
  for (std::int64_t i = begin; i < end; ++i) {
    std::fill_n(sums, a.cols, T{0});
    std::fill_n(highest, a.heads, std::numeric_limits<T>::lowest());
    std::fill_n(totals, a.heads, T{0});
    each_entry(a, i, [&](const DynamicBlock& block, std::int32_t j) HWY_ATTR {
      const float *target = block.rows.row(i), *source = block.neighbours.row(j);
      const bool drops = block.dropout.threshold != 0;
      const std::uint64_t key = drops ? block.dropout.key(i, j, false) : 0;
      for (std::int64_t h = 0; h < a.heads; ++h) {
        const std::int64_t at = h * cols;
        T* const to = sums + at;
        const T score =
            score_of<T>(a.vector + at, source + at, target + at, cols, static_cast<T>(a.slope));
        if (score > highest[h]) {
          const T factor = std::exp(highest[h] - score);
          highest[h] = score;
          totals[h] *= factor;
          for (std::int64_t c = 0; c < cols; ++c) to[c] *= factor;
        }
        const T weight = std::exp(score - highest[h]);
        totals[h] += weight;
        const T kept = drops ? weight * static_cast<T>(block.dropout.factor(key, h)) : weight;
        for (std::int64_t c = 0; c < cols; ++c) to[c] += kept * static_cast<T>(source[at + c]);
      }
    });
    for (std::int64_t h = 0; h < a.heads; ++h) {
      const T inverse = 1 / totals[h];
      for (std::int64_t c = h * cols; c < (h + 1) * cols; ++c) {
        out.row(i)[c] = static_cast<float>(sums[c] * inverse);
      }
      if (log_total.data == nullptr) continue;
      log_total.row(i)[h] = static_cast<float>(highest[h] + std::log(totals[h]));
    }
  }
}

template <class T>
void target_gradients(const DynamicAttention& a, MatrixView d_targets, T* g_vector,
                      std::int64_t begin, std::int64_t end) {
  const std::int64_t cols = a.head_cols();
  const T slope = static_cast<T>(a.slope);
  T* const sums = g_vector + a.cols;
  std::fill_n(g_vector, a.cols, T{0});
  for (std::int64_t i = begin; i < end; ++i) {
    std::fill_n(sums, a.cols, T{0});
    each_entry(a, i, [&](const DynamicBlock& block, std::int32_t j) HWY_ATTR {
      const float *target = block.rows.row(i), *source = block.neighbours.row(j);
      const bool drops = block.dropout.threshold != 0;
      const std::uint64_t key = drops ? block.dropout.key(i, j, false) : 0;
      for (std::int64_t h = 0; h < a.heads; ++h) {
        const T keep = drops ? static_cast<T>(block.dropout.factor(key, h)) : T{1};
        const T g = edge_gradient<T>(a, h, source, target, keep).score;
        for (std::int64_t c = h * cols; c < (h + 1) * cols; ++c) {
          const T x = static_cast<T>(source[c]) + static_cast<T>(target[c]);
          const T part = g * leak(x, slope);
          sums[c] += part;
          g_vector[c] += part * x;
        }
      }
    });
    for (std::int64_t c = 0; c < a.cols; ++c) {
      d_targets.row(i)[c] = static_cast<float>(static_cast<T>(a.vector[c]) * sums[c]);
    }
  }
}

template <class T>
void source_gradients(const DynamicAttention& a, MatrixView d_sources, T* sums, std::int64_t begin,
                      std::int64_t end) {
  const std::int64_t cols = a.head_cols();
  const T slope = static_cast<T>(a.slope);
  for (std::int64_t j = begin; j < end; ++j) {
    std::fill_n(sums, a.cols, T{0});
    each_entry(a, j, [&](const DynamicBlock& block, std::int32_t i) HWY_ATTR {
      const float *source = block.rows.row(j), *target = block.neighbours.row(i);
      const bool drops = block.dropout.threshold != 0;
      const std::uint64_t key = drops ? block.dropout.key(j, i, true) : 0;
      for (std::int64_t h = 0; h < a.heads; ++h) {
        const T keep = drops ? static_cast<T>(block.dropout.factor(key, h)) : T{1};
        const EdgeGradient<T> g = edge_gradient<T>(a, h, source, target, keep);
        const float* const d = a.gradient(target, h);
        for (std::int64_t k = 0; k < cols; ++k) {
          const std::int64_t c = h * cols + k;
          const T x = static_cast<T>(source[c]) + static_cast<T>(target[c]);
          sums[c] += g.weight * static_cast<T>(d[k]) +
                     g.score * static_cast<T>(a.vector[c]) * leak(x, slope);
        }
      }
    });
    for (std::int64_t c = 0; c < a.cols; ++c) {
      d_sources.row(j)[c] = static_cast<float>(sums[c]);
    }
  }
}

void Attend(const DynamicAttention& a, MatrixView out, MatrixView log_total, void* memory,
            bool fp64, std::int64_t begin, std::int64_t end) {
  if (fp64) {
    attend(a, out, log_total, static_cast<double*>(memory), begin, end);
  } else {
    attend(a, out, log_total, static_cast<float*>(memory), begin, end);
  }
}
void TargetGradients(const DynamicAttention& a, MatrixView d_targets, void* memory, bool fp64,
                     std::int64_t begin, std::int64_t end) {
  if (fp64) {
    target_gradients(a, d_targets, static_cast<double*>(memory), begin, end);
  } else {
    target_gradients(a, d_targets, static_cast<float*>(memory), begin, end);
  }
}
void SourceGradients(const DynamicAttention& a, MatrixView d_sources, void* memory, bool fp64,
                     std::int64_t begin, std::int64_t end) {
  if (fp64) {
    source_gradients(a, d_sources, static_cast<double*>(memory), begin, end);
  } else {
    source_gradients(a, d_sources, static_cast<float*>(memory), begin, end);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace heliograph::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heliograph::cpu {

HWY_EXPORT(Attend);
HWY_EXPORT(TargetGradients);
HWY_EXPORT(SourceGradients);

void dynamic_attention_rows(const DynamicAttention& a, MatrixView out, MatrixView log_total,
                            void* memory, bool fp64, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(Attend)(a, out, log_total, memory, fp64, begin, end);
}

void dynamic_attention_target_rows(const DynamicAttention& a, MatrixView d_targets, void* memory,
                                   bool fp64, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(TargetGradients)(a, d_targets, memory, fp64, begin, end);
}

void dynamic_attention_source_rows(const DynamicAttention& a, MatrixView d_sources, void* memory,
                                   bool fp64, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(SourceGradients)(a, d_sources, memory, fp64, begin, end);
}

}  // namespace heliograph::cpu
#endif
