#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.hpp"
#include "core/csr.hpp"
#include "core/kernels.hpp"

namespace heliograph {

/// A layer's input: dense rows, or sparse rows with their transpose. Owned by somebody else.
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
  std::int64_t rows() const { return is_sparse ? sparse.rows : dense.rows; }
  std::int64_t cols() const { return is_sparse ? sparse.cols : dense.cols; }
};

/// Owns the input features of one rank (or their first aggregation).
class FeatureMatrix {
 public:
  FeatureMatrix() = default;
  explicit FeatureMatrix(Matrix dense) : dense_(std::move(dense)), held_(true) {}
  FeatureMatrix(SparseRows sparse, MemoryRoom room, MemoryAccount* account);

  FeatureView view() const;
  /// True if it was made without a matrix; one without rows is not empty.
  bool empty() const { return !held_; }

 private:
  Matrix dense_;
  bool held_ = false;
  bool sparse_ = false;
  std::int64_t rows_ = 0;
  std::int64_t cols_ = 0;
  Buffer offsets_, columns_, values_;
  Buffer column_offsets_, row_of_, position_;
};

/// Holds a feature matrix after dropout.
class DroppedFeatures {
 public:
  /// Allocates what `apply` to matrices of the shape (and entries) of `x` writes.
  void allocate(const FeatureView& x, MemoryAccount* account);

  /// Returns `x` itself where the dropout is not active, else what was allocated for it.
  FeatureView apply(const FeatureView& x, const Dropout& dropout, Kernels& kernels);

 private:
  Matrix dense_;
  Buffer values_;
};

/// y = x W, or y += x W.
void multiply(Kernels& kernels, const FeatureView& x, ConstMatrixView w, bool accumulate,
              MatrixView y);

/// Rows [begin, end) of g = x^T d.
void multiply_gradient(Kernels& kernels, const FeatureView& x, ConstMatrixView d, GradientView g,
                       std::int64_t begin, std::int64_t end);

}  // namespace heliograph
