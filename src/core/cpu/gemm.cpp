#include "core/cpu/gemm.hpp"

#include <hwy/highway.h>

#include <algorithm>
#include <string>

#include "core/cpu/cpu_info.hpp"
#include "core/cpu/gemm_tiles.hpp"

namespace heliograph::cpu {
namespace {

constexpr std::int64_t kRowTile = 256;

const GemmTiles& tiles() {
  static const GemmTiles& chosen = []() -> const GemmTiles& {
#if defined(HELIOGRAPH_GEMM_HAS_AVX512)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      return gemm_tiles_avx512();
    }
#endif
#if defined(HELIOGRAPH_GEMM_HAS_AVX2)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return gemm_tiles_avx2();
#endif
    return gemm_tiles_baseline();
  }();
  return chosen;
}

}  // namespace

const char* gemm_variant() { return tiles().name; }

void gemm(ConstMatrixView a, ConstMatrixView b, bool transpose_b, bool accumulate, MatrixView c,
          bool fp64, ThreadPool& threads) {
  const GemmTiles& t = tiles();
  const auto product = fp64 ? t.product_fp64 : t.product;
  threads.for_ranges(c.rows, kRowTile, [&](std::int64_t begin, std::int64_t end) {
    product(a.row_range(begin, end - begin), b, transpose_b, accumulate,
            c.row_range(begin, end - begin));
  });
}

void gemm_gradient(ConstMatrixView a, ConstMatrixView d, GradientView g, ThreadPool& threads) {
  const GemmTiles& t = tiles();
  // Tiles of the result's rows: every element is summed by one thread, in row order.
  const std::int64_t grain = std::max<std::int64_t>(16, (g.rows + 3) / 4);
  threads.for_ranges(g.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    const ConstMatrixView part = a.col_range(begin, end - begin);
    if (g.f64 != nullptr) {
      t.gradient_fp64(part, d, g.f64 + begin * g.cols, g.cols);
    } else {
      t.gradient(part, d, g.f32 + begin * g.cols, g.cols);
    }
  });
}

}  // namespace heliograph::cpu

namespace heliograph {

std::string simd_description() {
  const std::int64_t best = hwy::SupportedTargets() & -hwy::SupportedTargets();
  return std::string("kernels ") + hwy::TargetName(best) + ", gemm " + cpu::gemm_variant();
}

}  // namespace heliograph
