#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "core/buffer.hpp"
#include "core/csr.hpp"
#include "core/kernels.hpp"
#include "core/site.hpp"

namespace heliograph {

/// A view of a layer's input: dense rows, or sparse rows with their transpose if it was made. The
/// viewed memory must outlive the view.
struct FeatureView {
  bool is_sparse = false;
  ConstMatrixView dense;
  SparseView sparse;
  SparseColumnsView by_column;

  static FeatureView of(ConstMatrixView m) {
    FeatureView v;
    v.dense = m;
    return v;
  }
  /// A view without rows that has this many columns.
  static FeatureView shape(std::int64_t cols, bool sparse) {
    FeatureView v;
    v.is_sparse = sparse;
    v.dense.cols = v.sparse.cols = cols;
    return v;
  }
  FeatureView row_range(RowRange range) const {
    FeatureView v = *this;
    v.dense = is_sparse ? dense : dense.row_range(range);
    v.sparse = is_sparse ? sparse.row_range(range) : sparse;
    return v;
  }
  std::int64_t rows() const { return is_sparse ? sparse.rows : dense.rows; }
  std::int64_t cols() const { return is_sparse ? sparse.cols : dense.cols; }
};

/// The memory of a sparse matrix in CSR form.
struct SparseBuffers {
  /// Makes zeroed buffers for `entry_count` entries.
  SparseBuffers(std::int64_t row_count, std::int64_t col_count, std::int64_t entry_count,
                MemoryUse use, MemoryAccount* account);

  std::int64_t rows, cols, entries;
  Buffer offsets;  ///< rows + 1 int64 values.
  Buffer columns;  ///< `entries` int32 values.
  Buffer values;   ///< `entries` float values.
};

/// Owns the input features of one rank, with or without those of its halo, or their first
/// aggregation.
class FeatureMatrix {
 public:
  FeatureMatrix() = default;
  explicit FeatureMatrix(Matrix dense) : dense_(std::move(dense)) {}
  explicit FeatureMatrix(SparseBuffers sparse) : sparse_(std::move(sparse)) {}
  /// Copies `sparse`.
  FeatureMatrix(const SparseRows& sparse, MemoryUse use, MemoryAccount* account);

  /// Builds the transpose of sparse rows, which weight gradients need. Does nothing for dense rows.
  void index_columns(MemoryUse use, MemoryAccount* account);

  /// Moves the matrix from the host to the device of `kernels`; does nothing if that is the host.
  /// `account` counts the device's memory.
  void place(Kernels& kernels, MemoryUse use, MemoryAccount* account);

  FeatureView view() const;
  /// True if the object has no matrix at all; a matrix of no rows is not empty.
  bool empty() const { return !dense_ && !sparse_; }

 private:
  std::optional<Matrix> dense_;
  std::optional<SparseBuffers> sparse_;
  Buffer column_offsets_, row_of_, position_;
  bool placed_ = false;
};

/// y = x W, or y += x W if `accumulate`. Adds `bias` (y.cols values, or null) to every row of y.
void multiply(Kernels& kernels, const FeatureView& x, ConstMatrixView w, bool accumulate,
              const float* bias, MatrixView y);

/// Rows [begin, end) of g = x^T d.
void multiply_gradient(Kernels& kernels, const FeatureView& x, ConstMatrixView d, GradientView g,
                       std::int64_t begin, std::int64_t end);

}  // namespace heliograph
