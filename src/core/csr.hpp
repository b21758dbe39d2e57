#pragma once

#include <cstdint>
#include <vector>

namespace heliograph {

class GatherBlocks;

/// A 0/1 sparse matrix in compressed rows that somebody else owns; no values are stored.
struct CsrView {
  std::int64_t rows = 0;
  const std::int64_t* offsets = nullptr;  ///< rows + 1 entries.
  const std::int32_t* columns = nullptr;  ///< offsets[rows] entries.
  /// The same entries in blocks, for aggregation on a CPU; null: as they stand.
  const GatherBlocks* blocks = nullptr;
};

struct Csr {
  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> columns;

  CsrView view() const {
    return {static_cast<std::int64_t>(offsets.size()) - 1, offsets.data(), columns.data(), nullptr};
  }
  std::int64_t entries() const { return offsets.empty() ? 0 : offsets.back(); }
};

/// Sparse feature rows: rows x cols with a value for each entry.
struct SparseView {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const std::int64_t* offsets = nullptr;
  const std::int32_t* columns = nullptr;
  const float* values = nullptr;
  std::int64_t entries = 0;

  /// Offsets stay those of the whole array, and so do `entries`.
  SparseView row_range(std::int64_t begin, std::int64_t count) const {
    return {count, cols, offsets + begin, columns, values, entries};
  }
};

/// Sparse rows as they are built: rows x cols.
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

/// The same entries by column: entry i of column c is row `row_of[i]`, value
/// `values[position[i]]` of the row-wise array. Rows ascend within a column.
struct SparseColumnsView {
  std::int64_t cols = 0;
  const std::int64_t* offsets = nullptr;  ///< cols + 1 entries.
  const std::int32_t* row_of = nullptr;
  const std::int64_t* position = nullptr;
};

}  // namespace heliograph
