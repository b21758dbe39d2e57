#pragma once

#include <cstdint>
#include <vector>

#include "core/matrix.hpp"

namespace heliograph {

class GatherBlocks;

/// A sparse matrix in compressed sparse rows. Does not own its arrays.
struct CsrView {
  std::int64_t rows = 0;
  const std::int64_t* offsets = nullptr;  ///< rows + 1 entries.
  const std::int32_t* columns = nullptr;  ///< offsets[rows] entries.
  /// The same entries ordered for aggregation on a CPU; null if the plain order serves.
  const GatherBlocks* blocks = nullptr;
  const float* values = nullptr;  ///< One for each entry; null if all are 1.

  /// These rows, without blocks. The offsets still count from the whole matrix.
  CsrView row_range(RowRange range) const {
    return {range.rows(), offsets + range.begin, columns, nullptr, values};
  }
};

/// Owns the arrays of a CsrView.
struct Csr {
  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> columns;
  std::vector<float> values = {};  ///< One for each entry, or none if all are 1.

  CsrView view() const {
    return {static_cast<std::int64_t>(offsets.size()) - 1, offsets.data(), columns.data(), nullptr,
            values.empty() ? nullptr : values.data()};
  }
  std::int64_t entries() const { return offsets.empty() ? 0 : offsets.back(); }
};

/// A rows x cols sparse matrix of features with a value for each entry. Does not own its arrays.
struct SparseView {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const std::int64_t* offsets = nullptr;
  const std::int32_t* columns = nullptr;
  const float* values = nullptr;
  std::int64_t entries = 0;

  /// These rows. `entries` and the offsets still count from the whole matrix.
  SparseView row_range(RowRange range) const {
    return {range.rows(), cols, offsets + range.begin, columns, values, entries};
  }
};

/// Owns the arrays of a SparseView; readers and generators append rows to it.
struct SparseRows {
  std::int64_t cols = 0;
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> columns;
  std::vector<float> values;

  std::int64_t rows() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  SparseView view() const {
    return {rows(),         cols,          offsets.data(),
            columns.data(), values.data(), static_cast<std::int64_t>(columns.size())};
  }
};

/// The columns of a sparse matrix: the entries i in [offsets[c], offsets[c + 1]) of column c lie in
/// row `row_of[i]` and have value `values[position[i]]` of the SparseView. Rows ascend in a column.
struct SparseColumnsView {
  std::int64_t cols = 0;
  const std::int64_t* offsets = nullptr;  ///< cols + 1 entries.
  const std::int32_t* row_of = nullptr;
  const std::int64_t* position = nullptr;
};

}  // namespace heliograph
