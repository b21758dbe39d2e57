#include "core/attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/aggregate_inputs.hpp"
#include "cuda/device_arrays.hpp"

// Compares attention with its CPU twin.

namespace heliograph {
namespace {

using test::Packed;

constexpr int kHeads[] = {1, 3, 8};
constexpr std::int64_t kHeadCols[] = {1, 7, 16, 64, 100};
constexpr int kBits[] = {1, 2, 4, 8, 16, 32};
constexpr std::int64_t kRows = 19, kNeighbours = 23;

/// A part of the largest value of the same row: sums of a few hundred terms differ in their order
/// and by the last bits of weights, and sums of codes add all minima apart.
constexpr double kAttentionBound = 2e-5;

void expect_near_by_row(ConstMatrixView actual, ConstMatrixView expected, const char* what) {
  ASSERT_EQ(actual.rows, expected.rows);
  ASSERT_EQ(actual.cols, expected.cols);
  for (std::int64_t r = 0; r < actual.rows; ++r) {
    double largest = 1;
    for (std::int64_t c = 0; c < actual.cols; ++c) {
      largest = std::max(largest, std::abs(static_cast<double>(expected.row(r)[c])));
    }
    for (std::int64_t c = 0; c < actual.cols; ++c) {
      ASSERT_NEAR(actual.row(r)[c], expected.row(r)[c], kAttentionBound * largest)
          << what << ", row " << r << " column " << c;
    }
  }
}

struct Shape {
  int heads;
  std::int64_t cols;  ///< Of each head.
  std::int64_t all() const { return heads * cols; }
};

struct Mode {
  bool backward = false, shared = false, drops = false;
};

class AttentionTwin : public TwinTest {
 protected:
  struct DeviceCsr {
    DeviceArray<std::int64_t> offsets;
    DeviceArray<std::int32_t> columns;
    CsrView view() const {
      return {static_cast<std::int64_t>(offsets.size()) - 1, offsets.data(), columns.data()};
    }
  };
  /// Some rows are empty, and row 2 has `hub` entries.
  Csr random_csr(std::int64_t rows, std::int64_t columns, std::int64_t hub) {
    Csr csr{{0}, {}};
    for (std::int64_t i = 0; i < rows; ++i) {
      std::int64_t degree = i == 2 ? hub : static_cast<std::int64_t>(random_() % 13) - 3;
      for (; degree > 0; --degree) {
        csr.columns.push_back(
            static_cast<std::int32_t>(random_() % static_cast<unsigned>(columns)));
      }
      csr.offsets.push_back(static_cast<std::int64_t>(csr.columns.size()));
    }
    return csr;
  }
  std::vector<std::int64_t> ids(std::int64_t count) {
    std::vector<std::int64_t> result(static_cast<std::size_t>(count));
    for (std::int64_t& id : result) id = static_cast<std::int64_t>(random_() % 100000);
    return result;
  }

  /// The sums of one pass, on the CPU and on the device.
  class Pass {
   public:
    Pass(AttentionTwin& test, Shape shape, Mode mode)
        : test_(test),
          shape_(shape),
          mode_(mode),
          row_scores_(test.normal_matrix(kRows, shape.heads)),
          device_row_scores_(test.on_device(row_scores_)),
          row_ids_(test.ids(kRows)),
          col_ids_(test.ids(kNeighbours)),
          device_row_ids_(test.on_device(row_ids_)),
          device_col_ids_(test.on_device(col_ids_)),
          positive_(test.normal_matrix(kRows, shape.all())),
          other_(test.normal_matrix(kRows, shape.all())),
          rows_(test.normal_matrix(kRows, 3 * shape.heads)),
          device_positive_(test.on_device(positive_)),
          device_other_(test.on_device(other_)),
          device_rows_(test.on_device(rows_)) {}

    void inner(std::int64_t hub) {
      const Csr csr = test_.random_csr(kRows, kRows, hub);
      const DeviceCsr device_csr{test_.on_device(csr.offsets), test_.on_device(csr.columns)};
      const Matrix x = test_.normal_matrix(kRows, mode_.shared ? shape_.cols : shape_.all());
      const Matrix exact = test_.normal_matrix(kRows, attention(false).exact_cols());
      const DeviceMatrix device_x = test_.on_device(x), device_exact = test_.on_device(exact);
      Attention a = attention(false), device_a = attention(true);
      a.own_rows = device_a.own_rows = true;
      a.dropout.col_ids = row_ids_.data();
      device_a.dropout.col_ids = device_row_ids_.data();
      test_.cpu->attention_inner(csr.view(), a, x.view(), exact.view(), sums());
      test_.cuda->attention_inner(device_csr.view(), device_a, device_x.view(), device_exact.view(),
                                  device_sums());
      compare("inner");
    }

    /// The packed columns [begin, begin + cols). They lie `shift` bytes behind an aligned address.
    void halo(const Csr& csr, int bits, std::int64_t begin, std::int64_t cols, std::size_t shift) {
      const Attention a = attention(false);
      const RowFormat format{bits, shift % 2 == 0, static_cast<int>(a.exact_cols()),
                             mode_.shared || bits > 8 ? 1 : shape_.heads};
      const Packed packed(kNeighbours, cols, format);
      std::vector<std::byte> moved(shift + packed.bytes.size());
      std::copy(packed.bytes.begin(), packed.bytes.end(), moved.begin() + static_cast<long>(shift));
      const auto device_bytes = test_.on_device(moved);
      const DeviceCsr device_csr{test_.on_device(csr.offsets), test_.on_device(csr.columns)};
      PackedRows rows = packed.rows;
      rows.col_begin = begin;
      test_.cpu->attention_halo(csr.view(), a, rows, sums());
      rows.data = device_bytes.data() + shift;
      test_.cuda->attention_halo(device_csr.view(), attention(true), rows, device_sums());
      compare("halo");
    }
    void halo(int bits, std::int64_t hub, std::size_t shift = 0) {
      SCOPED_TRACE(::testing::Message() << bits << " bits");
      halo(test_.random_csr(kRows, kNeighbours, hub), bits, 0,
           mode_.shared ? shape_.cols : shape_.all(), shift);
    }
    /// The device's sums of all matrices.
    std::vector<Matrix> values() const {
      std::vector<Matrix> all;
      all.push_back(device_positive_.values());
      all.push_back(device_other_.values());
      all.push_back(device_rows_.values());
      return all;
    }

   private:
    Attention attention(bool on_device) const {
      Attention a;
      a.heads = shape_.heads;
      a.backward = mode_.backward;
      a.shared = mode_.shared;
      a.row_scores = on_device ? ConstMatrixView(device_row_scores_.view()) : row_scores_.view();
      if (mode_.drops) {
        a.dropout = {26000, 77, on_device ? device_row_ids_.data() : row_ids_.data(),
                     on_device ? device_col_ids_.data() : col_ids_.data()};
      }
      return a;
    }
    AttentionSums sums() const { return {{positive_.view(), other_.view(), rows_.view()}, {}}; }
    AttentionSums device_sums() const {
      return {{device_positive_.view(), device_other_.view(), device_rows_.view()}, {}};
    }
    /// Backward, the shifts are not touched.
    void compare(const char* block) const {
      SCOPED_TRACE(block);
      expect_near_by_row(device_positive_.values().view(), positive_.view(), "positive");
      expect_near_by_row(device_other_.values().view(), other_.view(), "other");
      const Matrix rows = device_rows_.values();
      expect_near_by_row(rows.view(), rows_.view(), "totals");
      for (std::int64_t r = 0; r < kRows; ++r) {
        for (int h = 0; h < shape_.heads; ++h) {
          ASSERT_EQ(rows.view().row(r)[h], rows_.view().row(r)[h]) << "shift " << r << ", " << h;
        }
      }
    }

    AttentionTwin& test_;
    Shape shape_;
    Mode mode_;
    Matrix row_scores_;
    DeviceMatrix device_row_scores_;
    std::vector<std::int64_t> row_ids_, col_ids_;
    DeviceArray<std::int64_t> device_row_ids_, device_col_ids_;
    Matrix positive_, other_, rows_;
    DeviceMatrix device_positive_, device_other_, device_rows_;
  };

  template <class Body>
  static void for_shapes(const Body& body) {
    for (const int heads : kHeads) {
      for (const std::int64_t cols : kHeadCols) {
        if (HasFatalFailure()) return;
        SCOPED_TRACE(::testing::Message() << heads << " heads of " << cols);
        body(Shape{heads, cols});
      }
    }
  }
};

TEST_F(AttentionTwin, SumsOfEveryShapeAndFormat) {
  int number = 0;
  for_shapes([&](Shape shape) {
    for (const Mode mode : {Mode{}, Mode{true}, Mode{true, true}}) {
      SCOPED_TRACE(::testing::Message() << "backward " << mode.backward << mode.shared);
      Mode drawn = mode;
      drawn.drops = ++number % 2 == 0;
      Pass pass(*this, shape, drawn);
      pass.inner(20);
      for (const int bits : kBits) pass.halo(bits, 20, static_cast<std::size_t>(++number % 5));
    }
  });
}

TEST_F(AttentionTwin, WholeBlocksSumHubs) {
  for (const Shape shape : {Shape{1, 100}, Shape{3, 7}, Shape{2, 600}}) {
    for (const bool backward : {false, true}) {
      SCOPED_TRACE(::testing::Message() << shape.heads << " heads of " << shape.cols);
      Pass pass(*this, shape, {backward, false, true});
      pass.inner(600);
      for (const int bits : {1, 8, 32}) pass.halo(bits, 700);
    }
  }
}

TEST_F(AttentionTwin, BlocksOfColumnsRaiseTheShiftOnce) {
  for (const Shape shape : {Shape{3, 100}, Shape{8, 7}, Shape{1, 64}}) {
    for (const Mode mode : {Mode{}, Mode{true}, Mode{true, true}}) {
      SCOPED_TRACE(::testing::Message() << shape.heads << " heads of " << shape.cols);
      Pass pass(*this, shape, mode);
      pass.inner(20);
      const Csr csr = random_csr(kRows, kNeighbours, 520);
      const std::int64_t all = mode.shared ? shape.cols : shape.all();
      for (std::int64_t begin = 0; begin < all; begin += 16) {
        pass.halo(csr, 32, begin, std::min<std::int64_t>(16, all - begin), 0);
      }
    }
  }
}

TEST_F(AttentionTwin, EveryRunHasTheSameBits) {
  std::vector<Matrix> first;
  for (int run = 0; run < 2; ++run) {
    random_.seed(3);
    normal_.reset();
    Pass pass(*this, {3, 16}, {});
    pass.inner(600);
    pass.halo(4, 600);
    if (run == 0) {
      first = pass.values();
      continue;
    }
    const std::vector<Matrix> second = pass.values();
    for (std::size_t i = 0; i < first.size(); ++i) {
      test::expect_same_bits(first[i], second[i], "run");
    }
  }
}

class AttentionRowsTwin : public AttentionTwin {
 protected:
  /// Calls body(shape, rows) for every shape and some numbers of rows.
  template <class Body>
  static void for_rows(const Body& body) {
    for_shapes([&](Shape shape) { body(shape, shape.cols == 16 ? 257 : 31); });
    body(Shape{3, 16}, 0);
  }
  Matrix positive_matrix(std::int64_t rows, std::int64_t cols) {
    Matrix m = normal_matrix(rows, cols);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) m.view().row(r)[c] = std::abs(m.view().row(r)[c]) + 1;
    }
    return m;
  }
};

TEST_F(AttentionRowsTwin, Scores) {
  for_rows([&](Shape shape, std::int64_t rows) {
    const Matrix x = normal_matrix(rows, shape.all());
    const std::vector<float> source = normal_values(shape.all()),
                             target = normal_values(shape.all());
    const Matrix s = normal_matrix(rows, shape.heads), t = normal_matrix(rows, shape.heads);
    const DeviceMatrix device_x = on_device(x), device_s = on_device(s), device_t = on_device(t);
    const DeviceArray<float> device_source = on_device(source), device_target = on_device(target);
    cpu->attention_scores(x.view(), source.data(), target.data(), s.view(), t.view());
    cuda->attention_scores(device_x.view(), device_source.data(), device_target.data(),
                           device_s.view(), device_t.view());
    expect_near_by_row(device_s.values().view(), s.view(), "s");
    expect_near_by_row(device_t.values().view(), t.view(), "t");
  });
}

TEST_F(AttentionRowsTwin, OutputInThePlaceOfItsSums) {
  for_rows([&](Shape shape, std::int64_t rows) {
    for (const bool training : {false, true}) {
      const Matrix positive = normal_matrix(rows, shape.all());
      const Matrix other = normal_matrix(rows, shape.all());
      const Matrix totals = positive_matrix(rows, 3 * shape.heads);
      const Matrix share = normal_matrix(rows, shape.heads);
      const Matrix log_total = normal_matrix(rows, shape.heads);
      const DeviceMatrix device_positive = on_device(positive), device_other = on_device(other);
      const DeviceMatrix device_totals = on_device(totals), device_share = on_device(share);
      const DeviceMatrix device_log = on_device(log_total);
      const auto run = [&](Kernels& k, MatrixView p, MatrixView o, MatrixView t, MatrixView of,
                           MatrixView log) {
        if (training) {
          k.attention_output({{p, o, t}, {}}, shape.heads, o, p, of, log);
        } else {
          k.attention_output({{p, o, t}, {}}, shape.heads, o, {}, {}, {});
        }
      };
      run(*cpu, positive.view(), other.view(), totals.view(), share.view(), log_total.view());
      run(*cuda, device_positive.view(), device_other.view(), device_totals.view(),
          device_share.view(), device_log.view());
      expect_near_by_row(device_other.values().view(), other.view(), "output");
      expect_near_by_row(device_positive.values().view(), positive.view(), "positive");
      expect_near_by_row(device_share.values().view(), share.view(), "share");
      expect_near_by_row(device_log.values().view(), log_total.view(), "logarithm");
    }
  });
}

TEST_F(AttentionRowsTwin, GradientOfTargets) {
  for_rows([&](Shape shape, std::int64_t rows) {
    for (const std::int64_t width : {shape.all(), shape.cols}) {
      const Matrix d = normal_matrix(rows, width), out = normal_matrix(rows, shape.all());
      const Matrix positive = normal_matrix(rows, shape.all());
      const Matrix share = normal_matrix(rows, shape.heads);
      const Matrix r = normal_matrix(rows, shape.heads), dt = normal_matrix(rows, shape.heads);
      const DeviceMatrix device_d = on_device(d), device_out = on_device(out);
      const DeviceMatrix device_positive = on_device(positive), device_share = on_device(share);
      const DeviceMatrix device_r = on_device(r), device_dt = on_device(dt);
      cpu->attention_target_gradient(d.view(), 0.3F, 0.2F, out.view(), positive.view(),
                                     share.view(), r.view(), dt.view());
      cuda->attention_target_gradient(device_d.view(), 0.3F, 0.2F, device_out.view(),
                                      device_positive.view(), device_share.view(), device_r.view(),
                                      device_dt.view());
      expect_near_by_row(device_r.values().view(), r.view(), "r");
      expect_near_by_row(device_dt.values().view(), dt.view(), "dt");
    }
  });
}

TEST_F(AttentionRowsTwin, RoundingAndScoresOfKeptRows) {
  for_rows([&](Shape shape, std::int64_t rows) {
    for (const int bits : {1, 4, 16}) {
      const Matrix x = normal_matrix(rows, shape.all()),
                   positive = normal_matrix(rows, shape.all());
      const Matrix other = normal_matrix(rows, shape.all()),
                   exact = normal_matrix(rows, shape.heads);
      const Matrix totals = normal_matrix(rows, 3 * shape.heads);
      const Matrix scores = normal_matrix(rows, shape.heads);
      std::vector<std::int32_t> sent, nodes;
      std::vector<std::int64_t> ids;
      for (std::int32_t r = 0; r < rows; ++r) {
        ids.push_back(r);
        if (r % 3 == 1) continue;
        sent.push_back(r);
        nodes.push_back(r % 4 == 0 ? -1 : r);
      }
      const RowFormat format{bits, true, shape.heads, shape.heads};
      const auto codec = make_cpu_codec(format);
      const auto count = static_cast<std::int64_t>(sent.size());
      std::vector<std::byte> bytes(codec->encoded_bytes(count, shape.all()) + 64);
      ThreadPool threads(1);
      codec->encode(x.view(), {sent, nullptr, ids.data(), nullptr, exact.view()}, 5, bytes.data(),
                    threads);
      const DeviceMatrix device_x = on_device(x), device_positive = on_device(positive);
      const DeviceMatrix device_other = on_device(other), device_totals = on_device(totals);
      const DeviceMatrix device_scores = on_device(scores);
      const DeviceArray<std::byte> device_bytes = on_device(bytes);
      const DeviceArray<std::int32_t> device_nodes = on_device(nodes);
      const auto run = [&](Kernels& k, const KeptRows& kept, ConstMatrixView rows_sent,
                           const AttentionTotals<float>& sums, MatrixView to) {
        for (const RowRange range : {RowRange{0, rows / 2}, {rows / 2, rows}}) {
          k.attention_rounding(kept, range, rows_sent, shape.heads, 0.3F, 0.2F, {sums, {}});
        }
        k.decode_rows(kept.packed, kept.nodes, {}, to);
      };
      run(*cpu, {PackedRows(bytes.data(), count, shape.all(), 0, format), nodes.data()}, x.view(),
          {positive.view(), other.view(), totals.view()}, scores.view());
      run(*cuda,
          {PackedRows(device_bytes.data(), count, shape.all(), 0, format), device_nodes.data()},
          device_x.view(), {device_positive.view(), device_other.view(), device_totals.view()},
          device_scores.view());
      expect_near_by_row(device_totals.values().view(), totals.view(), "rounding");
      test::expect_same_bits(device_scores.values(), scores, "scores");
    }
  });
}

TEST_F(AttentionRowsTwin, GradientOfSourcesInThePlaceOfItsSums) {
  for_rows([&](Shape shape, std::int64_t rows) {
    const Matrix x = normal_matrix(rows, shape.all()), positive = normal_matrix(rows, shape.all());
    const Matrix other = normal_matrix(rows, shape.all());
    const Matrix totals = normal_matrix(rows, 3 * shape.heads);
    const Matrix dt = normal_matrix(rows, shape.heads);
    const std::vector<float> source = normal_values(shape.all()),
                             target = normal_values(shape.all());
    std::vector<float> g_source = normal_values(shape.all()), g_target = g_source;
    const DeviceMatrix device_x = on_device(x), device_positive = on_device(positive);
    const DeviceMatrix device_other = on_device(other), device_totals = on_device(totals);
    const DeviceMatrix device_dt = on_device(dt);
    const DeviceArray<float> device_source = on_device(source), device_target = on_device(target);
    const DeviceArray<float> device_gs = on_device(g_source), device_gt = on_device(g_target);
    const auto gradient = [&](float* at) {
      return GradientView{at, nullptr, shape.heads, shape.cols};
    };
    const AttentionSums sums{{positive.view(), other.view(), totals.view()}, {}};
    const AttentionSums device_sums{
        {device_positive.view(), device_other.view(), device_totals.view()}, {}};
    for (const RowRange range : {RowRange{0, rows / 2}, {rows / 2, rows}}) {
      cpu->attention_source_gradient(x.view().row_range(range), source.data(), target.data(), 0.3F,
                                     0.2F, sums.row_range(range), dt.view().row_range(range),
                                     other.view().row_range(range), range.begin > 0,
                                     gradient(g_source.data()), gradient(g_target.data()));
      cuda->attention_source_gradient(
          device_x.view().row_range(range), device_source.data(), device_target.data(), 0.3F, 0.2F,
          device_sums.row_range(range), device_dt.view().row_range(range),
          device_other.view().row_range(range), range.begin > 0, gradient(device_gs.data()),
          gradient(device_gt.data()));
    }
    expect_near_by_row(device_other.values().view(), other.view(), "dx");
    const auto row = [&](const std::vector<float>& v) {
      return ConstMatrixView{v.data(), 1, shape.all(), shape.all()};
    };
    expect_near_by_row(row(device_gs.values()), row(g_source), "gradient of source");
    expect_near_by_row(row(device_gt.values()), row(g_target), "gradient of target");
  });
}

}  // namespace
}  // namespace heliograph
