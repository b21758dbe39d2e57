#pragma once

#include "core/matrix.hpp"

namespace heliograph::cpu {

/// Rows [begin, end) of the losses that core/kernels.hpp declares; return the sum of losses.
double softmax_cross_entropy_rows(ConstMatrixView logits, const std::int32_t* target, float scale,
                                  MatrixView d, std::int64_t begin, std::int64_t end);
double binary_cross_entropy_rows(ConstMatrixView logits, const std::uint8_t* indicators,
                                 const std::uint8_t* mask, float scale, MatrixView d,
                                 std::int64_t begin, std::int64_t end);

}  // namespace heliograph::cpu
