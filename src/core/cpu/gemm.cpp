#include "core/cpu/gemm.hpp"

#include "core/cpu/simd_targets.hpp"
// after simd_targets
#include <hwy/highway.h>

#include <algorithm>
#include <string>

#include "core/cpu/cpu_info.hpp"
#include "core/cpu/gemm_simd.hpp"
#include "core/cpu/gemm_tiles.hpp"

namespace heliograph::cpu {
namespace {

constexpr std::int64_t kProductRows = 480;  // rows of a tile

/// The tiles for the best instruction set of this CPU, which is the lowest bit of Highway's mask.
const GemmTiles& tiles() {
  [[maybe_unused]] const std::int64_t best = hwy::SupportedTargets() & -hwy::SupportedTargets();
#if defined(HELIOGRAPH_GEMM_HAS_AVX512)
  if (best <= HWY_AVX3) return gemm_tiles_avx512();
#endif
#if defined(HELIOGRAPH_GEMM_HAS_AVX2)
  if (best <= HWY_AVX2) return gemm_tiles_avx2();
#endif
  return gemm_tiles_baseline();
}

}  // namespace

const char* gemm_variant() { return tiles().name; }

void Gemm::multiply(ConstMatrixView a, ConstMatrixView b, bool transpose_b, bool accumulate,
                    MatrixView c, bool fp64) {
  if (fp64) {
    threads_.for_ranges(c.rows, kProductRows, [&](std::int64_t begin, std::int64_t end) {
      tiles().product(a.row_range(begin, end - begin), b, transpose_b, accumulate,
                      c.row_range(begin, end - begin));
    });
    return;
  }
  const std::int64_t depth = transpose_b ? b.cols : b.rows;
  const PackedPanels panels =
      pack_panels(b, transpose_b, scratch(packed_panels_size(depth, c.cols)));
  threads_.for_ranges(c.rows, kProductRows, [&](std::int64_t begin, std::int64_t end) {
    multiply_panels(a.row_range(begin, end - begin), panels, accumulate,
                    c.row_range(begin, end - begin));
  });
}

void Gemm::gradient(ConstMatrixView a, ConstMatrixView d, GradientView g) {
  if (g.f64 != nullptr) {
    gradient_fp64(a, d, g);
    return;
  }
  // Each row is read once, in a slice of the summed rows; the slices' sums are added in order.
  const std::int64_t slices = std::max<std::int64_t>(
      {1, std::min<std::int64_t>(8, a.rows / 1024), std::min<std::int64_t>(32, a.rows / 16384)});
  const std::int64_t size = g.rows * g.cols;
  float* partial = scratch((slices - 1) * size);
  threads_.run(slices, [&](std::int64_t slice) {
    const std::int64_t begin = a.rows * slice / slices;
    const std::int64_t rows = a.rows * (slice + 1) / slices - begin;
    multiply_transposed(a.row_range(begin, rows), d.row_range(begin, rows),
                        slice == 0 ? g.f32 : partial + (slice - 1) * size, g.cols);
  });
  if (slices == 1) return;
  threads_.for_ranges(size, 1 << 13, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t slice = 1; slice < slices; ++slice) {
      const float* more = partial + (slice - 1) * size;
      for (std::int64_t i = begin; i < end; ++i) g.f32[i] += more[i];
    }
  });
}

void Gemm::gradient_fp64(ConstMatrixView a, ConstMatrixView d, GradientView g) {
  // A tile is some rows of g, so one thread sums each element, in row order.
  const std::int64_t grain = std::max<std::int64_t>(16, (g.rows + 3) / 4);
  threads_.for_ranges(g.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    tiles().gradient(a.col_range(begin, end - begin), d, g.f64 + begin * g.cols, g.cols);
  });
}

float* Gemm::scratch(std::int64_t floats) {
  const std::size_t bytes = static_cast<std::size_t>(floats) * sizeof(float);
  if (scratch_.size() < bytes) scratch_ = Buffer(bytes, MemoryUse::workspace, account_);
  return scratch_.as<float>().data();
}

}  // namespace heliograph::cpu

namespace heliograph {

std::string simd_description() {
  const std::int64_t compiled = hwy::SupportedTargets() & HWY_TARGETS;
  const std::int64_t best = compiled & -compiled;
  return std::string("kernels ") + hwy::TargetName(best) + ", fp64 products " + cpu::gemm_variant();
}

}  // namespace heliograph
