#pragma once

#include <cstdint>

#include "core/matrix.hpp"

namespace heliograph::cpu {

/// fp32 products of a matrix with very many rows and one that is small, single-threaded, compiled
/// for every SIMD target. The many rows are read where they lie; only the small side is packed.

/// A small matrix cut into panels of columns, each stored row after row and padded with zeros.
struct PackedPanels {
  const float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

/// Floats that packing a rows x cols matrix takes.
std::int64_t packed_panels_size(std::int64_t rows, std::int64_t cols);

/// Packs b, or its transpose, into `to`.
PackedPanels pack_panels(ConstMatrixView b, bool transpose, float* to);

/// c = a b or c += a b. Every element is summed in the order of b's rows, wherever its row lies.
void multiply_panels(ConstMatrixView a, const PackedPanels& b, bool accumulate, MatrixView c);

/// g = a^T d; `ldg` elements between rows of g.
void multiply_transposed(ConstMatrixView a, ConstMatrixView d, float* g, std::int64_t ldg);

}  // namespace heliograph::cpu
