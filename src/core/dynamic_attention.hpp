#pragma once

#include <cstdint>

#include "core/attention.hpp"
#include "core/csr.hpp"
#include "core/host_device.hpp"
#include "core/matrix.hpp"

namespace heliograph {

/// One block of the entries of a rank's adjacency.
struct DynamicBlock {
  CsrView csr;                 ///< Without rows if the block has no entries.
  ConstMatrixView rows;        ///< Of the nodes that the sums are of.
  ConstMatrixView neighbours;  ///< Of the nodes in the block's columns.
  EdgeDropout dropout;
  bool own_rows = false;   ///< The block also has the entries (i, i).
  std::int64_t first = 0;  ///< With own_rows, the place of the first row among the neighbours.

  DynamicBlock row_range(RowRange range) const {
    if (csr.rows == 0) return *this;
    return {
        csr.row_range(range), rows.row_range(range), neighbours, dropout.row_range(range), own_rows,
        first + range.begin};
  }
};

/// Attention with dynamic scores (GATv2: Brody, Alon and Yahav, 2022, equation 7). With a row s of
/// source j and a row t of target i, an edge has for each head the score
/// e = vector . LeakyReLU(s + t) over the head's columns and the weight exp(e - L), where L is the
/// logarithm of the target's sum of exp(e); dropout D multiplies the weight.
///
/// Rows of sources are `cols` values. Rows of targets are t, `cols` values; backward, d, the
/// gradient of the heads' outputs (`gradient_cols` values: of each head or, if they are as many as
/// a head has, of all heads alike), then L and r, the product of a head's output and its gradient,
/// one of each for each head, follow.
struct DynamicAttention {
  int heads = 1;
  std::int64_t cols = 0;           ///< Columns of all heads.
  std::int64_t gradient_cols = 0;  ///< Not read forward.
  float slope = 0.2F;              ///< Of LeakyReLU below 0.
  const float* vector = nullptr;   ///< heads x columns of a head.
  DynamicBlock inner, halo;

  /// For these rows of both blocks.
  DynamicAttention row_range(RowRange rows) const {
    DynamicAttention a = *this;
    a.inner = inner.row_range(rows);
    a.halo = halo.row_range(rows);
    return a;
  }
  HELIOGRAPH_HOST_DEVICE std::int64_t head_cols() const { return cols / heads; }
  /// Columns of a target's row in backward.
  HELIOGRAPH_HOST_DEVICE std::int64_t target_cols() const {
    return cols + gradient_cols + 2 * std::int64_t{heads};
  }
  /// d of head h in a target's row.
  HELIOGRAPH_HOST_DEVICE const float* gradient(const float* target, std::int64_t h) const {
    return target + cols + (gradient_cols == cols ? h * head_cols() : 0);
  }
  HELIOGRAPH_HOST_DEVICE float log_total(const float* target, std::int64_t h) const {
    return target[cols + gradient_cols + h];
  }
  HELIOGRAPH_HOST_DEVICE float product(const float* target, std::int64_t h) const {
    return target[cols + gradient_cols + heads + h];
  }
};

}  // namespace heliograph
