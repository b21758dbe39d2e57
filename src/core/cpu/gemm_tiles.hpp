#pragma once

#include "core/matrix.hpp"

namespace heliograph::cpu {

/// Single-threaded matrix products with fp64 sums, compiled for one instruction set.
struct GemmTiles {
  const char* name;  ///< "baseline", "avx2" or "avx512".
  /// c = a b, or c += a b to accumulate; with `transpose_b`, b is given as its transpose.
  void (*product)(ConstMatrixView a, ConstMatrixView b, bool transpose_b, bool accumulate,
                  MatrixView c);
  /// g = a^T d: a.cols x d.cols, with row stride `ldg`.
  void (*gradient)(ConstMatrixView a, ConstMatrixView d, double* g, std::int64_t ldg);
};

const GemmTiles& gemm_tiles_baseline();
const GemmTiles& gemm_tiles_avx2();
const GemmTiles& gemm_tiles_avx512();

}  // namespace heliograph::cpu
