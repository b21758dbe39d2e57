#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "core/buffer.hpp"
#include "core/csr.hpp"
#include "core/kernels.hpp"
#include "core/site.hpp"

namespace heliograph {

/// A layer's input: dense rows, or sparse rows with their transpose, where that was made. Owned by
/// somebody else.
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
  /// Of no rows.
  static FeatureView shape(std::int64_t cols, bool sparse) {
    FeatureView v;
    v.is_sparse = sparse;
    v.dense.cols = v.sparse.cols = cols;
    return v;
  }
  FeatureView row_range(RowRange range) const {
    FeatureView v = *this;
    v.dense = is_sparse ? dense : dense.row_range(range.begin, range.rows());
    v.sparse = is_sparse ? sparse.row_range(range.begin, range.rows()) : sparse;
    return v;
  }
  std::int64_t rows() const { return is_sparse ? sparse.rows : dense.rows; }
  std::int64_t cols() const { return is_sparse ? sparse.cols : dense.cols; }
};

/// Sparse rows as a rank holds them.
struct SparseBuffers {
  /// Zeroed.
  SparseBuffers(std::int64_t row_count, std::int64_t col_count, std::int64_t entry_count,
                MemoryUse use, MemoryAccount* account);

  std::int64_t rows, cols, entries;
  Buffer offsets;  ///< int64, rows + 1.
  Buffer columns;  ///< int32.
  Buffer values;   ///< float.
};

/// Owns the input features of one rank (or their first aggregation).
class FeatureMatrix {
 public:
  FeatureMatrix() = default;
  explicit FeatureMatrix(Matrix dense) : dense_(std::move(dense)) {}
  explicit FeatureMatrix(SparseBuffers sparse) : sparse_(std::move(sparse)) {}
  /// A copy.
  FeatureMatrix(const SparseRows& sparse, MemoryUse use, MemoryAccount* account);

  /// Makes the entries of sparse rows known by column as well, which weight gradients need. Nothing
  /// to do for dense ones.
  void index_columns(MemoryUse use, MemoryAccount* account);

  /// Moves it from the host, where it was made, to where kernels read it; nothing to do where that
  /// is the host. `account`: of the kernels' memory.
  void place(Kernels& kernels, MemoryUse use, MemoryAccount* account);

  FeatureView view() const;
  /// True if it was made without a matrix; one without rows is not empty.
  bool empty() const { return !dense_ && !sparse_; }

 private:
  std::optional<Matrix> dense_;
  std::optional<SparseBuffers> sparse_;
  Buffer column_offsets_, row_of_, position_;
  bool placed_ = false;
};

/// y = x W, or y += x W; with `bias` (y.cols values; may be null) that is added to every row of y.
void multiply(Kernels& kernels, const FeatureView& x, ConstMatrixView w, bool accumulate,
              const float* bias, MatrixView y);

/// Rows [begin, end) of g = x^T d.
void multiply_gradient(Kernels& kernels, const FeatureView& x, ConstMatrixView d, GradientView g,
                       std::int64_t begin, std::int64_t end);

}  // namespace heliograph
