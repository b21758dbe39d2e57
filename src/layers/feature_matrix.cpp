#include "layers/feature_matrix.hpp"

#include <algorithm>
#include <span>

namespace heliograph {
namespace {

template <class T>
Buffer keep(const std::vector<T>& values, MemoryRoom room, MemoryAccount* account) {
  Buffer buffer(values.size() * sizeof(T), room, account);
  std::copy(values.begin(), values.end(), buffer.as<T>().begin());
  return buffer;
}

}  // namespace

FeatureMatrix::FeatureMatrix(SparseRows sparse, MemoryRoom room, MemoryAccount* account)
    : held_(true), sparse_(true), rows_(sparse.rows()), cols_(sparse.cols) {
  const std::size_t entries = sparse.columns.size();
  column_offsets_ =
      Buffer((static_cast<std::size_t>(cols_) + 1) * sizeof(std::int64_t), room, account);
  row_of_ = Buffer(entries * sizeof(std::int32_t), room, account);
  position_ = Buffer(entries * sizeof(std::int64_t), room, account);
  const std::span<std::int64_t> offsets = column_offsets_.as<std::int64_t>();
  for (const std::int32_t c : sparse.columns) ++offsets[static_cast<std::size_t>(c) + 1];
  for (std::size_t c = 1; c < offsets.size(); ++c) offsets[c] += offsets[c - 1];
  std::vector<std::int64_t> next(offsets.begin(), offsets.end());
  for (std::int64_t r = 0; r < rows_; ++r) {
    const auto row = static_cast<std::size_t>(r);
    for (std::int64_t i = sparse.offsets[row]; i < sparse.offsets[row + 1]; ++i) {
      const auto column = static_cast<std::size_t>(sparse.columns[static_cast<std::size_t>(i)]);
      const auto at = static_cast<std::size_t>(next[column]++);
      row_of_.as<std::int32_t>()[at] = static_cast<std::int32_t>(r);
      position_.as<std::int64_t>()[at] = i;
    }
  }
  offsets_ = keep(sparse.offsets, room, account);
  columns_ = keep(sparse.columns, room, account);
  values_ = keep(sparse.values, room, account);
}

FeatureView FeatureMatrix::view() const {
  FeatureView v;
  if (!sparse_) {
    v.dense = dense_.view();
    return v;
  }
  v.is_sparse = true;
  v.sparse = {rows_, cols_, offsets_.as<std::int64_t>().data(), columns_.as<std::int32_t>().data(),
              values_.as<float>().data()};
  v.by_column = {cols_, column_offsets_.as<std::int64_t>().data(),
                 row_of_.as<std::int32_t>().data(), position_.as<std::int64_t>().data()};
  return v;
}

void DroppedFeatures::allocate(const FeatureView& x, MemoryAccount* account) {
  if (x.is_sparse) {
    const auto entries = static_cast<std::size_t>(x.sparse.offsets[x.sparse.rows]);
    values_ = Buffer(entries * sizeof(float), MemoryRoom::activations, account);
  } else {
    dense_ = Matrix(x.dense.rows, x.dense.cols, MemoryRoom::activations, account);
  }
}

FeatureView DroppedFeatures::apply(const FeatureView& x, const Dropout& dropout, Kernels& kernels) {
  if (!dropout.active()) return x;
  FeatureView out = x;
  if (x.is_sparse) {
    float* values = values_.as<float>().data();
    kernels.dropout_values(x.sparse, dropout, values);
    out.sparse.values = values;
  } else {
    kernels.dropout(x.dense, dropout, dense_.view());
    out.dense = dense_.view();
  }
  return out;
}

void multiply(Kernels& kernels, const FeatureView& x, ConstMatrixView w, bool accumulate,
              MatrixView y) {
  if (x.is_sparse) {
    kernels.spmm(x.sparse, w, accumulate, y);
  } else {
    kernels.gemm(x.dense, w, false, accumulate, y);
  }
}

void multiply_gradient(Kernels& kernels, const FeatureView& x, ConstMatrixView d, GradientView g,
                       std::int64_t begin, std::int64_t end) {
  g.rows = end - begin;
  if (g.f32 != nullptr) g.f32 += begin * g.cols;
  if (g.f64 != nullptr) g.f64 += begin * g.cols;
  if (x.is_sparse) {
    SparseColumnsView columns = x.by_column;
    columns.cols = end - begin;
    columns.offsets += begin;
    kernels.spmm_gradient(columns, x.sparse.values, d, g);
  } else {
    kernels.gemm_gradient(x.dense.col_range(begin, end - begin), d, g);
  }
}

}  // namespace heliograph
