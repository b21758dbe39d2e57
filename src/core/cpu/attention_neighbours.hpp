#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/cpu/aggregate_rows.hpp"
#include "core/packed_rows.hpp"

// The two kinds of neighbours whose rows attention sums: inner nodes and packed halo nodes.

namespace heliograph::cpu {

/// Entries of one head and one sign in the rows of a tile, with their weights.
template <class T>
struct Selection {
  std::int64_t* offsets;
  std::int32_t* columns;
  T* weights;
  std::int64_t count = 0;

  void put(std::int32_t column, T weight) {
    columns[count] = column;
    weights[count] = weight;
  }
};

/// Rows of inner nodes.
struct InnerNeighbours {
  ConstMatrixView x, exact;
  std::int64_t head_cols;
  bool shared;

  static constexpr bool kFirst = true;  ///< These are the first entries of each row.
  bool counts_totals() const { return true; }
  float exact_value(std::int32_t j, std::int64_t c) const { return exact.row(j)[c]; }
  void prefetch(std::int32_t j) const { __builtin_prefetch(exact.row(j)); }
  ConstMatrixView head(int h) const { return shared ? x : x.col_range(h * head_cols, head_cols); }

  void sum(const Selection<float>& s, int h, const MatrixView& out) const {
    const CsrView csr{out.rows, s.offsets, s.columns, nullptr, s.weights};
    aggregate_inner_rows(csr, head(h), nullptr, 0, nullptr, out.col_range(h * head_cols, head_cols),
                         0, out.rows);
  }
  void sum(const Selection<double>& s, int h, const AccumulatorView& out) const {
    const ConstMatrixView rows = head(h);
    for (std::int64_t i = 0; i < out.rows; ++i) {
      double* to = out.row(i) + h * head_cols;
      std::fill_n(to, head_cols, 0.0);
      for (std::int64_t e = s.offsets[i]; e < s.offsets[i + 1]; ++e) {
        const float* from = rows.row(s.columns[e]);
        for (std::int64_t c = 0; c < head_cols; ++c) to[c] += s.weights[e] * from[c];
      }
    }
  }
};

/// Packed rows of halo nodes, in all columns or in a block of them.
struct HaloNeighbours {
  PackedRows packed;
  std::int64_t head_cols;
  bool shared;
  /// The exact columns of the first row.
  const std::byte* exact = packed.data + packed.format.exact_begin(packed.cols);

  static constexpr bool kFirst = false;
  bool counts_totals() const { return packed.col_begin == 0; }
  float exact_value(std::int32_t j, std::int64_t c) const {
    float value = 0;
    std::memcpy(&value, exact + static_cast<std::size_t>(j) * packed.stride + 4 * c, 4);
    return value;
  }
  void prefetch(std::int32_t j) const {
    __builtin_prefetch(exact + static_cast<std::size_t>(j) * packed.stride);
  }

  /// Those of the head's columns that `packed` has, with the columns of the sums as col_begin.
  PackedRows head(int h) const {
    PackedRows view = packed;
    if (shared) {
      view.col_begin += h * head_cols;
    } else if (packed.format.is_codes()) {
      view = packed.group(h);
    } else {
      view.col_begin = std::max(packed.col_begin, h * head_cols);
      view.cols = std::max<std::int64_t>(
          0, std::min(packed.col_begin + packed.cols, (h + 1) * head_cols) - view.col_begin);
      view.data += (view.col_begin - packed.col_begin) * packed.format.bits / 8;
    }
    return view;
  }
  void sum(const Selection<float>& s, int h, const MatrixView& out) const {
    const PackedRows rows = head(h);
    if (rows.cols == 0) return;
    const CsrView csr{out.rows, s.offsets, s.columns, nullptr, s.weights};
    aggregate_halo_rows(csr, rows, nullptr, out, 0, out.rows);
  }
  void sum(const Selection<double>& s, int h, const AccumulatorView& out) const {
    const PackedRows rows = head(h);
    for (std::int64_t i = 0; i < out.rows; ++i) {
      for (std::int64_t e = s.offsets[i]; e < s.offsets[i + 1]; ++e) {
        add_decoded_row(rows.row(s.columns[e]), rows.format, rows.cols, s.weights[e],
                        out.row(i) + rows.col_begin);
      }
    }
  }
};

}  // namespace heliograph::cpu
