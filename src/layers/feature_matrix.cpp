#include "layers/feature_matrix.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace heliograph {

SparseBuffers::SparseBuffers(std::int64_t row_count, std::int64_t col_count,
                             std::int64_t entry_count, MemoryUse use, MemoryAccount* account)
    : rows(row_count),
      cols(col_count),
      entries(entry_count),
      offsets((static_cast<std::size_t>(row_count) + 1) * sizeof(std::int64_t), use, account),
      columns(static_cast<std::size_t>(entry_count) * sizeof(std::int32_t), use, account),
      values(static_cast<std::size_t>(entry_count) * sizeof(float), use, account) {}

FeatureMatrix::FeatureMatrix(const SparseRows& sparse, MemoryUse use, MemoryAccount* account)
    : sparse_(std::in_place, sparse.rows(), sparse.cols,
              static_cast<std::int64_t>(sparse.columns.size()), use, account) {
  std::copy(sparse.offsets.begin(), sparse.offsets.end(),
            sparse_->offsets.as<std::int64_t>().begin());
  std::copy(sparse.columns.begin(), sparse.columns.end(),
            sparse_->columns.as<std::int32_t>().begin());
  std::copy(sparse.values.begin(), sparse.values.end(), sparse_->values.as<float>().begin());
}

void FeatureMatrix::index_columns(MemoryUse use, MemoryAccount* account) {
  if (!sparse_) return;
  const std::span<const std::int64_t> row_offsets = sparse_->offsets.as<std::int64_t>();
  const std::span<const std::int32_t> columns = sparse_->columns.as<std::int32_t>();
  column_offsets_ =
      Buffer((static_cast<std::size_t>(sparse_->cols) + 1) * sizeof(std::int64_t), use, account);
  row_of_ = Buffer(columns.size() * sizeof(std::int32_t), use, account);
  position_ = Buffer(columns.size() * sizeof(std::int64_t), use, account);
  const std::span<std::int64_t> offsets = column_offsets_.as<std::int64_t>();
  for (const std::int32_t c : columns) ++offsets[static_cast<std::size_t>(c) + 1];
  for (std::size_t c = 1; c < offsets.size(); ++c) offsets[c] += offsets[c - 1];
  std::vector<std::int64_t> next(offsets.begin(), offsets.end());
  for (std::int64_t r = 0; r < sparse_->rows; ++r) {
    const auto row = static_cast<std::size_t>(r);
    for (std::int64_t i = row_offsets[row]; i < row_offsets[row + 1]; ++i) {
      const auto column = static_cast<std::size_t>(columns[static_cast<std::size_t>(i)]);
      const auto at = static_cast<std::size_t>(next[column]++);
      row_of_.as<std::int32_t>()[at] = static_cast<std::int32_t>(r);
      position_.as<std::int64_t>()[at] = i;
    }
  }
}

void FeatureMatrix::place(Kernels& kernels, MemoryUse use, MemoryAccount* account) {
  if (placed_ || kernels.device().on_host()) return;
  placed_ = true;
  const auto move = [&](Buffer& buffer) {
    if (buffer.size() == 0) return;
    Buffer moved(buffer.size(), use, account);
    kernels.device().upload(moved.data(), buffer.data(), buffer.size());
    buffer = std::move(moved);
  };
  if (dense_) {
    const MatrixView host = dense_->view();
    Matrix moved(host.rows, host.cols, use, account);
    const auto values = static_cast<std::size_t>(host.rows * host.stride);
    kernels.device().upload(moved.view().data, host.data, values * sizeof(float));
    dense_ = std::move(moved);
  }
  if (!sparse_) return;
  for (Buffer* buffer : {&sparse_->offsets, &sparse_->columns, &sparse_->values, &column_offsets_,
                         &row_of_, &position_}) {
    move(*buffer);
  }
}

FeatureView FeatureMatrix::view() const {
  FeatureView v;
  if (dense_) v.dense = dense_->view();
  if (!sparse_) return v;
  v.is_sparse = true;
  v.sparse = {sparse_->rows,
              sparse_->cols,
              sparse_->offsets.as<std::int64_t>().data(),
              sparse_->columns.as<std::int32_t>().data(),
              sparse_->values.as<float>().data(),
              sparse_->entries};
  v.by_column = {sparse_->cols, column_offsets_.as<std::int64_t>().data(),
                 row_of_.as<std::int32_t>().data(), position_.as<std::int64_t>().data()};
  return v;
}

void multiply(Kernels& kernels, const FeatureView& x, ConstMatrixView w, bool accumulate,
              const float* bias, MatrixView y) {
  if (x.is_sparse) {
    kernels.spmm(x.sparse, w, accumulate, y);
    if (bias != nullptr) kernels.add_bias(y, bias);
  } else if (bias != nullptr) {
    kernels.gemm_bias(x.dense, w, accumulate, bias, y);
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
