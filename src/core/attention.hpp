#pragma once

#include <cstdint>

#include "core/host_device.hpp"
#include "core/matrix.hpp"
#include "core/noise.hpp"

namespace heliograph {

/// The share of values that dropout drops.
struct DropoutRate {
  std::uint32_t threshold = 0;  ///< Dropped if noise16 < threshold: probability threshold / 2^16.

  /// The factor of values that are kept.
  HELIOGRAPH_HOST_DEVICE float scale() const {
    return 65536.0F / static_cast<float>(65536 - threshold);
  }
};

/// Dropout of attention weights, which both owners of an edge draw alike: the noise is keyed by the
/// edge's target, its source and the head.
struct EdgeDropout : DropoutRate {
  std::uint64_t stream = 0;               ///< stream_key() with Purpose::attention.
  const std::int64_t* row_ids = nullptr;  ///< Global node id of each row of the block.
  const std::int64_t* col_ids = nullptr;  ///< Global node id of each column of the block.

  /// Key of the noise of entry (row, col), of which word h decides for head h.
  HELIOGRAPH_HOST_DEVICE std::uint64_t key(std::int64_t row, std::int32_t col,
                                           bool row_is_source) const {
    const auto r = static_cast<std::uint64_t>(row_ids[row]);
    const auto c = static_cast<std::uint64_t>(col_ids[col]);
    return row_key(row_key(stream, row_is_source ? c : r), row_is_source ? r : c);
  }
  /// For these rows of the block.
  EdgeDropout row_range(RowRange rows) const {
    EdgeDropout d = *this;
    if (row_ids != nullptr) d.row_ids += rows.begin;
    return d;
  }
  /// The factor of a weight in head h of an entry with this key.
  HELIOGRAPH_HOST_DEVICE float factor(std::uint64_t key, std::int64_t h) const {
    return noise16(key, static_cast<std::uint32_t>(h)) >= threshold ? scale() : 0.0F;
  }
};

/// How the entries of a block are weighed in sums over neighbours (GAT: Velickovic et al., 2018,
/// equations 1 to 3). The edge from source j to target i has for each head the score
/// x = t_i + s_j, the weight w = exp(LeakyReLU(x) - shift) and, after dropout, w D.
///
/// Forward, rows are targets, and entry (i, j) adds w to the row's totals and w D z_j to its sums;
/// the shift is the row's, its largest score so far. Backward, rows are sources, and entry (j, i)
/// adds w r_i to the totals and w D do_i to the sums; the shift L_i is the column's, so w is the
/// softmax. Entries with x > 0 and other entries have sums of their own, since LeakyReLU has two
/// slopes.
struct Attention {
  int heads = 1;
  float slope = 0.2F;          ///< Of LeakyReLU below 0.
  bool backward = false;       ///< Rows are sources.
  bool shared = false;         ///< All heads sum the same columns, not columns of their own.
  bool own_rows = false;       ///< The block also has the entries (i, i).
  ConstMatrixView row_scores;  ///< rows x heads: t forward, s backward.
  EdgeDropout dropout;

  /// Exact columns that each neighbour has: s forward; t, L and r backward.
  std::int64_t exact_cols() const { return (backward ? 3 : 1) * std::int64_t{heads}; }
  /// For these rows of a block without `own_rows`.
  Attention row_range(RowRange rows) const {
    Attention a = *this;
    a.row_scores = row_scores.row_range(rows);
    a.dropout = dropout.row_range(rows);
    return a;
  }
};

/// What the entries of a row add up to, by the sign of their score x. Values are float, or double
/// for reproducible kernels.
template <class T>
struct AttentionTotals {
  BasicMatrixView<T> positive, other;  ///< rows x (heads * columns of a head).
  /// rows x (3 * heads): forward the shift of the weights, backward a part of the gradient of
  /// scores that begins with 0; then the totals of positive and of other entries.
  BasicMatrixView<T> rows;

  AttentionTotals row_range(RowRange range) const {
    if (rows.data == nullptr) return *this;
    return {positive.row_range(range), other.row_range(range), rows.row_range(range)};
  }
};

/// AttentionTotals of which one is set: f64 for reproducible kernels.
struct AttentionSums {
  AttentionTotals<float> f32;
  AttentionTotals<double> f64;

  AttentionSums row_range(RowRange rows) const {
    return {f32.row_range(rows), f64.row_range(rows)};
  }
};

}  // namespace heliograph
