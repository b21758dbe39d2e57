#pragma once

#include "core/matrix.hpp"

namespace heliograph::cpu {

/// Rows [begin, end) of the losses that core/kernels.hpp declares; return the sum of losses.
/// fp32, compiled for every SIMD target; only a row's loss is summed in fp64. NaN in a row, or Inf,
/// makes its loss NaN or Inf. Rows of `logits` and `d` are padded to 64 bytes.
double softmax_cross_entropy_rows(ConstMatrixView logits, const std::int32_t* target, float scale,
                                  MatrixView d, std::int64_t begin, std::int64_t end);
double binary_cross_entropy_rows(ConstMatrixView logits, const std::uint8_t* indicators,
                                 const std::uint8_t* mask, float scale, MatrixView d,
                                 std::int64_t begin, std::int64_t end);

/// The same in fp64, for `--reproducible`.
double softmax_cross_entropy_rows_fp64(ConstMatrixView logits, const std::int32_t* target,
                                       float scale, MatrixView d, std::int64_t begin,
                                       std::int64_t end);
double binary_cross_entropy_rows_fp64(ConstMatrixView logits, const std::uint8_t* indicators,
                                      const std::uint8_t* mask, float scale, MatrixView d,
                                      std::int64_t begin, std::int64_t end);

}  // namespace heliograph::cpu
