#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/noise.hpp"
#include "cuda/device_arrays.hpp"

namespace heliograph {
namespace {

/// Rows and columns of the sparse x, and columns of the dense factor.
struct SparseShape {
  std::int64_t rows, cols, width;
};
constexpr SparseShape kSparseShapes[] = {{0, 3, 4},      {1, 1, 1},     {31, 33, 31},
                                         {33, 31, 33},   {257, 90, 7},  {40, 257, 64},
                                         {65, 120, 257}, {4000, 12, 40}};

/// Sparse rows. Some are empty and one is full. Columns 2 and 3 are full but for the empty rows.
SparseRows sparse_rows(SparseShape s, std::mt19937& random) {
  std::normal_distribution<float> normal;
  SparseRows x;
  x.cols = s.cols;
  for (std::int64_t r = 0; r < s.rows; ++r) {
    for (std::int64_t c = 0; c < s.cols; ++c) {
      const bool full = r == 8 || c == 2 || c == 3;
      if (r % 7 == 3 || (!full && random() % 5 != 0)) continue;
      x.columns.push_back(static_cast<std::int32_t>(c));
      x.values.push_back(normal(random));
    }
    x.offsets.push_back(static_cast<std::int64_t>(x.columns.size()));
  }
  return x;
}

/// The same entries by column.
struct ByColumn {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> row_of;
  std::vector<std::int64_t> position;

  explicit ByColumn(const SparseRows& x) {
    for (std::int64_t c = 0; c < x.cols; ++c) {
      for (std::int64_t r = 0; r < x.rows(); ++r) {
        for (std::int64_t i = x.offsets[static_cast<std::size_t>(r)];
             i < x.offsets[static_cast<std::size_t>(r) + 1]; ++i) {
          if (x.columns[static_cast<std::size_t>(i)] != c) continue;
          row_of.push_back(static_cast<std::int32_t>(r));
          position.push_back(i);
        }
      }
      offsets.push_back(static_cast<std::int64_t>(position.size()));
    }
  }
  SparseColumnsView view() const {
    return {static_cast<std::int64_t>(offsets.size()) - 1, offsets.data(), row_of.data(),
            position.data()};
  }
};

class SparseTwin : public TwinTest {
 protected:
  /// Sums of up to 257 products of normal values in entry order on both sides: only whether
  /// products are fused differs. Of more terms, which are as many times larger, the order too.
  static double bound(std::int64_t terms) {
    return 1e-4 * std::max(1.0, static_cast<double>(terms) / 257.0);
  }
};

TEST_F(SparseTwin, Products) {
  for (const SparseShape s : kSparseShapes) {
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(::testing::Message() << s.rows << " x " << s.cols << " x " << s.width
                                        << " accumulate " << accumulate);
      const SparseRows x = sparse_rows(s, random_);
      const DeviceArray<std::int64_t> offsets = on_device(x.offsets);
      const DeviceArray<std::int32_t> columns = on_device(x.columns);
      const DeviceArray<float> values = on_device(x.values);
      SparseView device_x = x.view();
      device_x.offsets = offsets.data();
      device_x.columns = columns.data();
      device_x.values = values.data();
      const Matrix b = normal_matrix(s.cols, s.width);
      const Matrix c = normal_matrix(s.rows, s.width);
      const DeviceMatrix device_b = on_device(b), device_c = on_device(c);
      cuda->spmm(device_x, device_b.view(), accumulate, device_c.view());
      cpu->spmm(x.view(), b.view(), accumulate, c.view());
      expect_near(device_c.values().view(), c.view(), bound(s.cols));
    }
  }
}

TEST_F(SparseTwin, Gradients) {
  for (const SparseShape s : kSparseShapes) {
    SCOPED_TRACE(::testing::Message() << s.rows << " x " << s.cols << " x " << s.width);
    const SparseRows x = sparse_rows(s, random_);
    const ByColumn by_column(x);
    const DeviceArray<std::int64_t> offsets = on_device(by_column.offsets);
    const DeviceArray<std::int32_t> row_of = on_device(by_column.row_of);
    const DeviceArray<std::int64_t> position = on_device(by_column.position);
    const DeviceArray<float> values = on_device(x.values);
    const SparseColumnsView device_columns{s.cols, offsets.data(), row_of.data(), position.data()};
    const Matrix d = normal_matrix(s.rows, s.width);
    const DeviceMatrix device_d = on_device(d);
    std::vector<float> g(static_cast<std::size_t>(s.cols * s.width), 7.0F);
    const DeviceArray<float> device_g = on_device(g);
    cuda->spmm_gradient(device_columns, values.data(), device_d.view(),
                        {device_g.data(), nullptr, s.cols, s.width});
    cpu->spmm_gradient(by_column.view(), x.values.data(), d.view(),
                       {g.data(), nullptr, s.cols, s.width});
    expect_near(device_g.values(), g, bound(s.rows));
  }
}

TEST_F(SparseTwin, DroppedValuesAreTheSame) {
  for (const SparseShape s : kSparseShapes) {
    SCOPED_TRACE(::testing::Message() << s.rows << " x " << s.cols);
    const SparseRows x = sparse_rows(s, random_);
    std::vector<std::int64_t> ids;
    for (std::int64_t r = 0; r < s.rows; ++r) ids.push_back(5 + 3 * r);
    const DeviceArray<std::int64_t> offsets = on_device(x.offsets);
    const DeviceArray<std::int32_t> columns = on_device(x.columns);
    const DeviceArray<float> values = on_device(x.values);
    const DeviceArray<std::int64_t> device_ids = on_device(ids);
    SparseView device_x = x.view();
    device_x.offsets = offsets.data();
    device_x.columns = columns.data();
    device_x.values = values.data();
    const std::uint64_t stream =
        stream_key(1, Purpose::dropout, {2}, site_key(0, Direction::forward));
    std::vector<float> out(x.values.size(), 9.0F);
    const DeviceArray<float> device_out = on_device(out);
    cuda->dropout_values(device_x, {20000, stream, device_ids.data()}, device_out.data());
    cpu->dropout_values(x.view(), {20000, stream, ids.data()}, out.data());
    expect_near(device_out.values(), out, 0);
  }
}

}  // namespace
}  // namespace heliograph
