#pragma once

#include "core/matrix.hpp"

namespace heliograph::cpu {

/// One tile of a matrix product that sums in fp64, single-threaded; defined once for each
/// instruction set. Products in fp32: core/cpu/gemm_simd.hpp.
struct GemmTiles {
  const char* name;
  void (*product)(ConstMatrixView a, ConstMatrixView b, bool transpose_b, bool accumulate,
                  MatrixView c);
  /// g[0 .. a.cols) x d.cols = a^T d, `ldg` elements between rows of g.
  void (*gradient)(ConstMatrixView a, ConstMatrixView d, double* g, std::int64_t ldg);
};

const GemmTiles& gemm_tiles_baseline();
const GemmTiles& gemm_tiles_avx2();
const GemmTiles& gemm_tiles_avx512();

}  // namespace heliograph::cpu
