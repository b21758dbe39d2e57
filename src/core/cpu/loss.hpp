#pragma once

#include "core/kernels.hpp"

namespace heliograph::cpu {

// Losses of Kernels (core/kernels.hpp) over rows [begin, end), which each function returns the sum
// of. A row with NaN or Inf has a loss of NaN or Inf.

/// Computed in fp32 and summed over rows in fp64. Rows of `logits` and `d` are padded to 64 bytes.
double softmax_cross_entropy_rows(ConstMatrixView logits, const ClassTargets& targets, float scale,
                                  MatrixView d, std::int64_t begin, std::int64_t end);
double binary_cross_entropy_rows(ConstMatrixView logits, const std::uint8_t* indicators,
                                 const std::uint8_t* mask, float scale, MatrixView d,
                                 std::int64_t begin, std::int64_t end);

/// Computed in fp64, for `--reproducible`.
double softmax_cross_entropy_rows_fp64(ConstMatrixView logits, const ClassTargets& targets,
                                       float scale, MatrixView d, std::int64_t begin,
                                       std::int64_t end);
double binary_cross_entropy_rows_fp64(ConstMatrixView logits, const std::uint8_t* indicators,
                                      const std::uint8_t* mask, float scale, MatrixView d,
                                      std::int64_t begin, std::int64_t end);

/// Computed in fp64 for every setting.
double squared_error_rows(ConstMatrixView values, const float* target, float scale, MatrixView d,
                          std::int64_t begin, std::int64_t end);

}  // namespace heliograph::cpu
