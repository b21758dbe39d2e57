// A tile of kRows x kVectors accumulators stays in registers over a block of the summed dimension;
// each step loads one row of a panel and broadcasts kRows values of the other matrix.

#include "core/cpu/gemm_simd.hpp"

#include <algorithm>

#include "core/cpu/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/gemm_simd.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// after foreach_target
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace heliograph::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, 16>;
using V = hn::Vec<Tag>;

// Accumulators take 24 of 32 registers, or 12 of 16.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr int kMostVectors = 4;
#else
constexpr int kMostVectors = 2;
#endif
constexpr int kMostRows = 6;
constexpr std::int64_t kDepth = 256;     // block of the summed dimension; its panels fit L2
constexpr std::int64_t kRowBlock = 96;   // rows of a multiplied by a panel while it is in L1
constexpr std::int64_t kPackRows = 128;  // rows of d packed at a time, which fit L1

std::int64_t Lanes() { return static_cast<std::int64_t>(hn::Lanes(Tag())); }

/// The broadcast operand of a tile: element (i, k) is data[i * row_step + k * step].
struct Strided {
  const float* data;
  std::int64_t row_step;
  std::int64_t step;
};

/// Prefetches the rows of a matrix, `step` rows with each call.
class Ahead {
 public:
  Ahead() = default;
  Ahead(ConstMatrixView rows, std::int64_t step) : rows_(rows), step_(step) {}
  void Fetch() {
    const std::int64_t end = std::min(rows_.rows, next_ + step_);
    for (; next_ < end; ++next_) {
      const float* row = rows_.row(next_);
      for (std::int64_t c = 0; c < rows_.cols; c += 16) hwy::Prefetch(row + c);
    }
  }

 private:
  ConstMatrixView rows_;
  std::int64_t step_ = 0;
  std::int64_t next_ = 0;
};

// Vectors of a size unknown to the compiler cannot be array elements, so they are named variables.
#define HELIOGRAPH_EACH_ROW(F) F(0) F(1) F(2) F(3) F(4) F(5)

/// Stores the first `n` lanes of `sum` to `to`, or adds them; touches nothing past them.
HWY_INLINE void StoreSum(V sum, bool accumulate, std::int64_t lanes, float* to, std::int64_t n) {
  const Tag d;
  if (n >= lanes) {
    hn::StoreU(accumulate ? hn::Add(sum, hn::LoadU(d, to)) : sum, d, to);
    return;
  }
#if HWY_TARGET <= HWY_AVX2
  const auto mask = hn::FirstN(d, static_cast<std::size_t>(n));
  hn::BlendedStore(accumulate ? hn::Add(sum, hn::MaskedLoad(mask, d, to)) : sum, mask, d, to);
#else
  // Elsewhere a masked store reads and writes the whole vector.
  HWY_ALIGN float values[16] = {};
  hn::Store(sum, d, values);
  for (std::int64_t i = 0; i < n; ++i) to[i] = accumulate ? to[i] + values[i] : values[i];
#endif
}

/// c = a panel, or c += a panel, for kRows x cols elements of c, summed over k < depth. Rows of the
/// panel are kVectors vectors; the last vector of c may be partial.
template <int kRows, int kVectors>
void Tile(const Strided a, const float* HWY_RESTRICT panel, std::int64_t depth, bool accumulate,
          float* c, std::int64_t ldc, std::int64_t cols) {
  const Tag d;
  const std::int64_t lanes = Lanes();
#define HELIOGRAPH_DECLARE(r) \
  V s##r##0 = hn::Zero(d), s##r##1 = s##r##0, s##r##2 = s##r##0, s##r##3 = s##r##0;
  HELIOGRAPH_EACH_ROW(HELIOGRAPH_DECLARE)
#undef HELIOGRAPH_DECLARE
  for (int r = 0; r < kRows; ++r) {
    for (std::int64_t j = 0; j < cols; j += 16) hwy::Prefetch(c + r * ldc + j);
  }
  const float* HWY_RESTRICT x = a.data;
  const std::int64_t row_step = a.row_step;
  for (std::int64_t k = 0; k < depth; ++k) {
    const V b0 = hn::LoadU(d, panel);
    V b1 = b0, b2 = b0, b3 = b0;
    if constexpr (kVectors > 1) b1 = hn::LoadU(d, panel + lanes);
    if constexpr (kVectors > 2) b2 = hn::LoadU(d, panel + 2 * lanes);
    if constexpr (kVectors > 3) b3 = hn::LoadU(d, panel + 3 * lanes);
#define HELIOGRAPH_STEP(r)                                            \
  if constexpr (r < kRows) {                                          \
    const V v = hn::Set(d, x[r * row_step]);                          \
    s##r##0 = hn::MulAdd(v, b0, s##r##0);                             \
    if constexpr (kVectors > 1) s##r##1 = hn::MulAdd(v, b1, s##r##1); \
    if constexpr (kVectors > 2) s##r##2 = hn::MulAdd(v, b2, s##r##2); \
    if constexpr (kVectors > 3) s##r##3 = hn::MulAdd(v, b3, s##r##3); \
  }
    HELIOGRAPH_EACH_ROW(HELIOGRAPH_STEP)
#undef HELIOGRAPH_STEP
    panel += kVectors * lanes;
    x += a.step;
  }
#define HELIOGRAPH_STORE(r)                                                                     \
  if constexpr (r < kRows) {                                                                    \
    float* to = c + r * ldc;                                                                    \
    StoreSum(s##r##0, accumulate, lanes, to, cols);                                             \
    if constexpr (kVectors > 1) StoreSum(s##r##1, accumulate, lanes, to + lanes, cols - lanes); \
    if constexpr (kVectors > 2)                                                                 \
      StoreSum(s##r##2, accumulate, lanes, to + 2 * lanes, cols - 2 * lanes);                   \
    if constexpr (kVectors > 3)                                                                 \
      StoreSum(s##r##3, accumulate, lanes, to + 3 * lanes, cols - 3 * lanes);                   \
  }
  HELIOGRAPH_EACH_ROW(HELIOGRAPH_STORE)
#undef HELIOGRAPH_STORE
}

/// Multiplies any number of rows of a by a panel, in tiles, and prefetches `ahead` and `also`.
template <int kVectors>
void Rows(Strided a, std::int64_t rows, const float* panel, std::int64_t depth, bool accumulate,
          float* c, std::int64_t ldc, std::int64_t cols, Ahead& ahead, Ahead& also) {
  const auto take = [&](auto count, auto tile) {
    for (; rows >= count; rows -= count) {
      ahead.Fetch();
      also.Fetch();
      tile(a, panel, depth, accumulate, c, ldc, cols);
      a.data += count * a.row_step;
      c += count * ldc;
    }
  };
  take(6, Tile<6, kVectors>);
  take(4, Tile<4, kVectors>);
  take(2, Tile<2, kVectors>);
  take(1, Tile<1, kVectors>);
}

void Panel(const Strided& a, std::int64_t rows, const float* panel, std::int64_t depth,
           bool accumulate, float* c, std::int64_t ldc, std::int64_t cols, Ahead& ahead,
           Ahead& also) {
  const std::int64_t vectors = (cols + Lanes() - 1) / Lanes();
  switch (vectors) {
    case 1:
      return Rows<1>(a, rows, panel, depth, accumulate, c, ldc, cols, ahead, also);
    case 2:
      return Rows<2>(a, rows, panel, depth, accumulate, c, ldc, cols, ahead, also);
    case 3:
      return Rows<std::min(3, kMostVectors)>(a, rows, panel, depth, accumulate, c, ldc, cols, ahead,
                                             also);
    default:
      return Rows<kMostVectors>(a, rows, panel, depth, accumulate, c, ldc, cols, ahead, also);
  }
}

/// Runs body(first column, columns, padded columns) for each panel of a matrix of `cols` columns.
template <class Body>
void EachPanel(std::int64_t cols, const Body& body) {
  const std::int64_t lanes = Lanes();
  for (std::int64_t c = 0; c < cols; c += kMostVectors * lanes) {
    const std::int64_t n = std::min(cols - c, kMostVectors * lanes);
    body(c, n, (n + lanes - 1) / lanes * lanes);
  }
}

std::int64_t PackedSize(std::int64_t rows, std::int64_t cols) {
  std::int64_t size = 0;
  EachPanel(cols, [&](std::int64_t, std::int64_t, std::int64_t padded) { size += rows * padded; });
  return size;
}

void Pack(ConstMatrixView b, bool transpose, float* HWY_RESTRICT to) {
  const std::int64_t rows = transpose ? b.cols : b.rows;
  EachPanel(transpose ? b.rows : b.cols, [&](std::int64_t c, std::int64_t n, std::int64_t padded) {
    for (std::int64_t k = 0; k < rows; ++k) {
      for (std::int64_t j = 0; j < n; ++j) to[j] = transpose ? b.row(c + j)[k] : b.row(k)[c + j];
      std::fill(to + n, to + padded, 0.0F);
      to += padded;
    }
  });
}

void MultiplyPanels(ConstMatrixView a, const PackedPanels& b, bool accumulate, MatrixView c) {
  const std::int64_t blocks = std::max<std::int64_t>(1, (b.rows + kDepth - 1) / kDepth);
  Ahead next(a, kMostRows);
  Ahead none;
  next.Fetch();
  for (std::int64_t r = 0; r < a.rows; r += kRowBlock) {
    const std::int64_t rows = std::min(kRowBlock, a.rows - r);
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t first = b.rows * block / blocks;
      const std::int64_t depth = b.rows * (block + 1) / blocks - first;
      const Strided left{a.row(r) + first, a.stride, 1};
      const float* panels = b.data;
      EachPanel(b.cols, [&](std::int64_t col, std::int64_t n, std::int64_t padded) {
        Panel(left, rows, panels + first * padded, depth, accumulate || block > 0, c.row(r) + col,
              c.stride, n, block == 0 && col == 0 ? next : none, none);
        panels += b.rows * padded;
      });
    }
  }
}

void MultiplyTransposed(ConstMatrixView a, ConstMatrixView d, float* g, std::int64_t ldg) {
  HWY_ALIGN float packed[kPackRows * kMostVectors * 16];
  const std::int64_t panels = (d.cols + kMostVectors * Lanes() - 1) / (kMostVectors * Lanes());
  const std::int64_t tiles = std::max<std::int64_t>(1, panels * (a.cols / kMostRows));
  const std::int64_t rows_a_tile = (kPackRows + tiles - 1) / tiles;
  for (std::int64_t r = 0; r < std::max<std::int64_t>(1, a.rows); r += kPackRows) {
    const std::int64_t rows = std::min(kPackRows, a.rows - r);
    const Strided left{a.row(r), 1, a.stride};
    const std::int64_t after = std::min(kPackRows, a.rows - r - rows);
    Ahead next_a(a.row_range(r + rows, after), rows_a_tile);
    Ahead next_d(d.row_range(r + rows, after), rows_a_tile);
    EachPanel(d.cols, [&](std::int64_t col, std::int64_t n, std::int64_t) {
      Pack(d.row_range(r, rows).col_range(col, n), false, packed);
      Panel(left, a.cols, packed, rows, r > 0, g + col, ldg, n, next_a, next_d);
    });
  }
}

}  // namespace heliograph::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heliograph::cpu {

HWY_EXPORT(PackedSize);
HWY_EXPORT(Pack);
HWY_EXPORT(MultiplyPanels);
HWY_EXPORT(MultiplyTransposed);

std::int64_t packed_panels_size(std::int64_t rows, std::int64_t cols) {
  return HWY_DYNAMIC_DISPATCH(PackedSize)(rows, cols);
}

PackedPanels pack_panels(ConstMatrixView b, bool transpose, float* to) {
  HWY_DYNAMIC_DISPATCH(Pack)(b, transpose, to);
  return transpose ? PackedPanels{to, b.cols, b.rows} : PackedPanels{to, b.rows, b.cols};
}

void multiply_panels(ConstMatrixView a, const PackedPanels& b, bool accumulate, MatrixView c) {
  HWY_DYNAMIC_DISPATCH(MultiplyPanels)(a, b, accumulate, c);
}

void multiply_transposed(ConstMatrixView a, ConstMatrixView d, float* g, std::int64_t ldg) {
  HWY_DYNAMIC_DISPATCH(MultiplyTransposed)(a, d, g, ldg);
}

}  // namespace heliograph::cpu
#endif
