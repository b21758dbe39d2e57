#pragma once

#include <cstdint>

#include "core/matrix.hpp"

namespace heliograph::cpu {

// Single-threaded fp32 products of a matrix with very many rows and a narrow one, compiled for
// every Highway target. Only the narrow matrix is packed; the other is read in place.

/// A matrix cut into panels of columns, each stored row after row and padded with zeros.
struct PackedPanels {
  const float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

/// Number of floats that a packed rows x cols matrix takes.
std::int64_t packed_panels_size(std::int64_t rows, std::int64_t cols);

/// Packs b, or its transpose, into `to`, which the result points to.
PackedPanels pack_panels(ConstMatrixView b, bool transpose, float* to);

/// c = a b, or c += a b to accumulate. Every element is summed in the order of b's rows.
void multiply_panels(ConstMatrixView a, const PackedPanels& b, bool accumulate, MatrixView c);

/// g = a^T d: a.cols x d.cols, with row stride `ldg`.
void multiply_transposed(ConstMatrixView a, ConstMatrixView d, float* g, std::int64_t ldg);

}  // namespace heliograph::cpu
