#include "core/dynamic_attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/aggregate_inputs.hpp"
#include "cuda/device_arrays.hpp"

// Compares attention with dynamic scores with its CPU twin.

namespace heliograph {
namespace {

constexpr std::int64_t kTargets = 37, kHaloNodes = 23;

struct DynamicShape {
  int heads;
  std::int64_t cols;  ///< Of each head.
  bool averaged = false, drops = false;
  std::int64_t rows = kTargets;
};

/// Sums of a few hundred terms differ in their order, and by the last bits of weights.
void expect_like(ConstMatrixView actual, ConstMatrixView expected, const char* what) {
  for (std::int64_t r = 0; r < expected.rows; ++r) {
    double largest = 1;
    for (std::int64_t c = 0; c < expected.cols; ++c) {
      largest = std::max(largest, std::abs(static_cast<double>(expected.row(r)[c])));
    }
    for (std::int64_t c = 0; c < expected.cols; ++c) {
      ASSERT_NEAR(actual.row(r)[c], expected.row(r)[c], 2e-5 * largest)
          << what << ", row " << r << " column " << c;
    }
  }
}

class DynamicTwin : public TwinTest {
 protected:
  /// The entries and rows of one direction, on the CPU and on the device.
  class Blocks {
   public:
    Blocks(DynamicTwin& test, DynamicShape shape, bool backward)
        : test_(test),
          shape_(shape),
          backward_(backward),
          cols_(shape.heads * shape.cols),
          vector_(test.small_values(cols_)),
          inner_(test.random_entries(shape.rows, shape.rows)),
          halo_(test.random_entries(shape.rows, kHaloNodes)),
          sources_(test.rows_of_sources(shape.rows, cols_)),
          targets_(test.rows_of_targets(shape.rows, attention_shape())),
          halo_rows_(backward ? test.rows_of_targets(kHaloNodes, attention_shape())
                              : test.rows_of_sources(kHaloNodes, cols_)),
          device_vector_(test.on_device(vector_)),
          device_offsets_{test.on_device(inner_.offsets), test.on_device(halo_.offsets)},
          device_columns_{test.on_device(inner_.columns), test.on_device(halo_.columns)},
          device_sources_(test.on_device(sources_)),
          device_targets_(test.on_device(targets_)),
          device_halo_(test.on_device(halo_rows_)) {
      for (std::int64_t i = 0; i < shape.rows + kHaloNodes; ++i) ids_.push_back(7 + 3 * i);
      device_ids_.push_back(test.on_device(ids_));
    }

    DynamicAttention attention(bool on_device) const {
      DynamicAttention a = attention_shape();
      a.vector = on_device ? device_vector_.data() : vector_.data();
      const auto csr = [&](int block) {
        const Csr& host = block == 0 ? inner_ : halo_;
        if (!on_device) return host.view();
        return CsrView{shape_.rows, device_offsets_[block].data(), device_columns_[block].data()};
      };
      const ConstMatrixView sources = on_device ? device_sources_.view() : sources_.view();
      const ConstMatrixView targets = on_device ? device_targets_.view() : targets_.view();
      const std::int64_t* const ids = on_device ? device_ids_[0].data() : ids_.data();
      const DropoutRate rate{shape_.drops ? 26000U : 0U};
      a.inner = {csr(0),
                 backward_ ? sources : targets,
                 backward_ ? targets : sources,
                 {rate, 77, ids, ids},
                 true};
      a.halo = {csr(1),
                a.inner.rows,
                on_device ? device_halo_.view() : halo_rows_.view(),
                {rate, 77, ids, ids + shape_.rows}};
      return a;
    }
    std::int64_t cols() const { return cols_; }

   private:
    DynamicAttention attention_shape() const {
      DynamicAttention a;
      a.heads = shape_.heads;
      a.cols = shape_.heads * shape_.cols;
      a.gradient_cols = shape_.averaged ? shape_.cols : a.cols;
      return a;
    }

    DynamicTwin& test_;
    DynamicShape shape_;
    bool backward_;
    std::int64_t cols_;
    std::vector<float> vector_;
    Csr inner_, halo_;
    Matrix sources_, targets_, halo_rows_;
    DeviceArray<float> device_vector_;
    DeviceArray<std::int64_t> device_offsets_[2];
    DeviceArray<std::int32_t> device_columns_[2];
    DeviceMatrix device_sources_, device_targets_, device_halo_;
    std::vector<std::int64_t> ids_;
    std::vector<DeviceArray<std::int64_t>> device_ids_;
  };

  std::vector<float> small_values(std::int64_t count) {
    std::vector<float> values = normal_values(count);
    for (float& v : values) v /= std::sqrt(static_cast<float>(count));
    return values;
  }
  Matrix rows_of_sources(std::int64_t rows, std::int64_t cols) { return normal_matrix(rows, cols); }
  /// L is about the logarithm of a total, so that weights are about 1 at most.
  Matrix rows_of_targets(std::int64_t rows, const DynamicAttention& a) {
    Matrix m = normal_matrix(rows, a.target_cols());
    for (std::int64_t r = 0; r < rows; ++r) {
      for (int h = 0; h < a.heads; ++h) m.view().row(r)[a.cols + a.gradient_cols + h] += 5;
    }
    return m;
  }
  /// Some rows are empty, and row 2 has many entries.
  Csr random_entries(std::int64_t rows, std::int64_t columns) {
    Csr csr{{0}, {}};
    for (std::int64_t i = 0; i < rows; ++i) {
      std::int64_t degree = i == 2 ? 100 : static_cast<std::int64_t>(random_() % 13) - 3;
      for (; degree > 0; --degree) {
        csr.columns.push_back(
            static_cast<std::int32_t>(random_() % static_cast<unsigned>(columns)));
      }
      csr.offsets.push_back(static_cast<std::int64_t>(csr.columns.size()));
    }
    return csr;
  }

  void expect_twins(DynamicShape shape) {
    SCOPED_TRACE(::testing::Message() << shape.heads << " heads of " << shape.cols << ", averaged "
                                      << shape.averaged << ", dropout " << shape.drops);
    const Blocks forward(*this, shape, false), backward(*this, shape, true);
    const std::int64_t cols = forward.cols();
    const Matrix out = normal_matrix(shape.rows, cols),
                 log = normal_matrix(shape.rows, shape.heads);
    const DeviceMatrix device_out = on_device(out), device_log = on_device(log);
    cpu->dynamic_attention(forward.attention(false), out.view(), log.view());
    const RowRange ranges[] = {{0, shape.rows / 3}, {shape.rows / 3, shape.rows}};
    for (const RowRange range : ranges) {
      cuda->dynamic_attention(forward.attention(true).row_range(range),
                              device_out.view().row_range(range),
                              device_log.view().row_range(range));
    }
    expect_like(device_out.values().view(), out.view(), "output");
    expect_like(device_log.values().view(), log.view(), "logarithm");
    std::vector<float> g = normal_values(cols);
    const DeviceArray<float> device_g = on_device(g);
    cpu->dynamic_attention_targets(forward.attention(false), out.view(),
                                   {g.data(), nullptr, shape.heads, shape.cols});
    cuda->dynamic_attention_targets(forward.attention(true), device_out.view(),
                                    {device_g.data(), nullptr, shape.heads, shape.cols});
    expect_like(device_out.values().view(), out.view(), "targets");
    const std::vector<float> got = device_g.values();
    expect_like({got.data(), 1, cols, cols}, {g.data(), 1, cols, cols}, "vector");
    cpu->dynamic_attention_sources(backward.attention(false), out.view());
    for (const RowRange range : ranges) {
      cuda->dynamic_attention_sources(backward.attention(true).row_range(range),
                                      device_out.view().row_range(range));
    }
    expect_like(device_out.values().view(), out.view(), "sources");
  }
};

TEST_F(DynamicTwin, OfEveryShape) {
  int number = 0;
  for (const int heads : {1, 3, 8}) {
    for (const std::int64_t cols : {1, 7, 16, 64, 100, 300}) {
      for (const bool averaged : {false, true}) {
        expect_twins({heads, cols, averaged, ++number % 3 == 0});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(DynamicTwin, OfManyRowsAndOfNone) {
  expect_twins({3, 16, false, true, 257});
  expect_twins({2, 5, false, false, 3});
}

TEST_F(DynamicTwin, DecodesEveryFormat) {
  for (const int bits : {1, 2, 4, 8, 16, 32}) {
    for (const int groups : {1, 3}) {
      const std::int64_t cols = groups * 37;
      test::Packed packed(6, cols, {bits, bits != 4, 2, groups});
      packed.rows.col_begin = 5;
      const DeviceArray<std::byte> bytes = on_device(packed.bytes);
      const std::vector<std::int32_t> nodes{7, 0, -1, 3, 4, 1};
      const DeviceArray<std::int32_t> device_nodes = on_device(nodes);
      for (const bool scatters : {false, true}) {
        const Matrix values = normal_matrix(8, 5 + cols), exact = normal_matrix(8, 2);
        const DeviceMatrix device_values = on_device(values), device_exact = on_device(exact);
        PackedRows on_device_rows = packed.rows;
        on_device_rows.data = bytes.data();
        cpu->decode_rows(packed.rows, scatters ? nodes.data() : nullptr, values.view(),
                         exact.view());
        cuda->decode_rows(on_device_rows, scatters ? device_nodes.data() : nullptr,
                          device_values.view(), device_exact.view());
        test::expect_same_bits(device_values.values(), values, "values");
        test::expect_same_bits(device_exact.values(), exact, "exact");
      }
    }
  }
}

}  // namespace
}  // namespace heliograph
