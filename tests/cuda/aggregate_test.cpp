#include "core/cpu/aggregate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/aggregate_inputs.hpp"
#include "cuda/device_arrays.hpp"
#include "cuda/row_sizes.hpp"
#include "support/aggregate_reference.hpp"

namespace heliograph {
namespace {

using test::expect_same_bits;
using test::Packed;
using test::random_scale;

const std::vector<RowFormat> kFormats = {
    {1, true},  {1, false}, {2, true},  {2, false},    {4, true},    {4, false},    {8, true},
    {8, false}, {16, true}, {32, true}, {1, false, 1}, {4, true, 3}, {16, true, 1}, {32, true, 2}};

class AggregateTwin : public TwinTest {
 protected:
  /// Rows of skewed degree: some are empty, and one has `hub` entries.
  Csr random_csr(std::int64_t rows, std::int64_t columns, std::int64_t hub = 300,
                 bool values = false) {
    Csr csr{{0}, {}};
    for (std::int64_t i = 0; i < rows; ++i) {
      std::int64_t degree = i == 2 ? hub : static_cast<std::int64_t>(random_() % 40) - 2;
      if (columns == 0) degree = 0;
      for (; degree > 0; --degree) {
        csr.columns.push_back(
            static_cast<std::int32_t>(random_() % static_cast<unsigned>(columns)));
      }
      csr.offsets.push_back(static_cast<std::int64_t>(csr.columns.size()));
    }
    if (values) csr.values = test::random_entry_values(csr.columns.size(), 5);
    return csr;
  }

  struct DeviceCsr {
    DeviceArray<std::int64_t> offsets;
    DeviceArray<std::int32_t> columns;
    DeviceArray<float> values;
    CsrView view() const {
      return {static_cast<std::int64_t>(offsets.size()) - 1, offsets.data(), columns.data(),
              nullptr, values.size() == 0 ? nullptr : values.data()};
    }
  };
  DeviceCsr on_device_csr(const Csr& csr) {
    return {on_device(csr.offsets), on_device(csr.columns), on_device(csr.values)};
  }

  static Matrix copy_of(const Matrix& m) {
    Matrix copy(m.view().rows, m.view().cols, MemoryUse::workspace, nullptr);
    std::copy_n(m.view().data, m.view().rows * m.view().stride, copy.view().data);
    return copy;
  }

  /// Compares aggregate_halo on the device with the plain loops, both on a copy of `before`. The
  /// packed rows begin `shift` bytes behind an aligned address.
  void check_halo(const Csr& csr, const Packed& packed, const std::vector<float>* row_scale,
                  std::int64_t col_begin, const Matrix& before, std::size_t shift) {
    PackedRows rows = packed.rows;
    rows.col_begin = col_begin;
    const float* by_row = row_scale == nullptr ? nullptr : row_scale->data();
    const Matrix expected = copy_of(before);
    cpu::aggregate_halo_reference(csr.view(), rows, by_row, expected.view());

    std::vector<std::byte> moved(shift + packed.bytes.size());
    std::copy(packed.bytes.begin(), packed.bytes.end(), moved.begin() + static_cast<long>(shift));
    const auto device_bytes = on_device(moved);
    const auto device_scale = on_device(row_scale == nullptr ? std::vector<float>() : *row_scale);
    const DeviceCsr device_csr = on_device_csr(csr);
    const DeviceMatrix out = on_device(before);
    rows.data = device_bytes.data() + shift;
    cuda->aggregate_halo(device_csr.view(), rows, by_row == nullptr ? nullptr : device_scale.data(),
                         out.view(), {});
    const Matrix actual = out.values();
    if (!rows.format.is_codes()) {
      expect_same_bits(actual, expected, "values");
      return;
    }
    rows.data = packed.bytes.data();
    for (std::int64_t i = 0; i < csr.view().rows; ++i) {
      for (std::int64_t c = 0; c < before.view().stride; ++c) {
        const float got = actual.view().row(i)[c];
        const float want = expected.view().row(i)[c];
        const bool summed = c >= col_begin && c < col_begin + rows.cols;
        if (summed && csr.offsets[static_cast<std::size_t>(i)] <
                          csr.offsets[static_cast<std::size_t>(i) + 1]) {
          const double bound = halo_bound(csr, rows, by_row, i, c - col_begin, want);
          ASSERT_NEAR(got, want, bound) << "row " << i << " column " << c;
        } else {
          ASSERT_EQ(0, std::memcmp(&got, &want, 4)) << "row " << i << " column " << c;
        }
      }
    }
  }

  /// Both orders of summing (values; or minima, then steps) round once a term, by at most 2^-24 of
  /// the sum of magnitudes so far, and a few times at the end and for values of entries.
  static double halo_bound(const Csr& csr, const PackedRows& all, const float* row_scale,
                           std::int64_t i, std::int64_t c, float result) {
    const PackedRows rows = all.group(static_cast<int>(c * all.format.groups / all.cols));
    c %= rows.cols;
    double magnitude = 0;
    const auto row = static_cast<std::size_t>(i);
    for (auto e = csr.offsets[row]; e < csr.offsets[row + 1]; ++e) {
      const std::byte* from = rows.row(csr.columns[static_cast<std::size_t>(e)]);
      const RowParameters p = read_parameters(from, rows.format);
      const auto code =
          read_code(from + rows.format.parameter_bytes(), rows.format.bits, rows.cols, c);
      magnitude += std::abs(double{cpu::entry_value(csr.view(), e)}) *
                   (std::abs(static_cast<double>(p.minimum)) + code * static_cast<double>(p.step));
    }
    const auto entries = static_cast<double>(csr.offsets[row + 1] - csr.offsets[row]);
    const double scale = row_scale == nullptr ? 1 : static_cast<double>(row_scale[i]);
    return 2 * (entries + 6) * 0x1p-24 *
           (scale * magnitude + std::abs(static_cast<double>(result)));
  }
};

TEST_F(AggregateTwin, InnerHasTheBitsOfThePlainLoops) {
  for_row_sizes([&](std::int64_t rows, std::int64_t cols) {
    const Csr plain = random_csr(rows, rows);
    const Csr weighted = random_csr(rows, rows, 300, true);
    const DeviceCsr device_plain = on_device_csr(plain);
    const DeviceCsr device_weighted = on_device_csr(weighted);
    const Matrix x = normal_matrix(rows, cols);
    const DeviceMatrix device_x = on_device(x);
    const auto col_scale = random_scale(rows, 3);
    const auto row_scale = random_scale(rows, 4);
    const auto device_col = on_device(col_scale);
    const auto device_row = on_device(row_scale);
    const Matrix before = normal_matrix(rows, cols);
    for (const float self : {0.0F, 1.0F, 1.5F}) {
      for (const int kind : {0, 1, 2, 3}) {
        const bool scaled = kind % 2 == 1;
        const Csr& csr = kind < 2 ? plain : weighted;
        const DeviceCsr& device_csr = kind < 2 ? device_plain : device_weighted;
        const Matrix expected = copy_of(before);
        cpu::aggregate_inner_reference(csr.view(), x.view(), scaled ? col_scale.data() : nullptr,
                                       self, scaled ? row_scale.data() : nullptr, expected.view());
        const DeviceMatrix out = on_device(before);
        cuda->aggregate_inner(device_csr.view(), device_x.view(),
                              scaled ? device_col.data() : nullptr, self,
                              scaled ? device_row.data() : nullptr, out.view(), {});
        expect_same_bits(out.values(), expected, scaled ? "scaled" : "plain");
      }
    }
  });
}

TEST_F(AggregateTwin, InnerBf16HasTheBitsOfThePlainLoops) {
  for_row_sizes([&](std::int64_t rows, std::int64_t cols) {
    const Csr csr = random_csr(rows, rows, 300, rows % 2 == 1);
    const DeviceCsr device_csr = on_device_csr(csr);
    const Matrix x = normal_matrix(rows, cols);
    const DeviceMatrix device_x = on_device(x);
    const auto scale = random_scale(rows, 3);
    const auto device_scale = on_device(scale);
    const Matrix before = normal_matrix(rows, cols);
    BasicMatrix<std::uint16_t> untouched(rows, cols, MemoryUse::workspace, nullptr);
    std::fill_n(untouched.view().data, rows * untouched.view().stride, std::uint16_t{0x7fc0});
    for (const float self : {0.0F, 1.0F, 1.5F}) {
      const bool scaled = self != 0;
      const Matrix expected = copy_of(before);
      cpu::aggregate_inner_bf16_reference(csr.view(), x.view(), scaled ? scale.data() : nullptr,
                                          self, scaled ? scale.data() : nullptr, expected.view());
      const DeviceMatrix out = on_device(before);
      const BasicDeviceMatrix<std::uint16_t> stored = on_device(untouched);
      cuda->aggregate_inner_bf16(device_csr.view(), device_x.view(),
                                 scaled ? device_scale.data() : nullptr, self,
                                 scaled ? device_scale.data() : nullptr, out.view(), stored.view());
      expect_same_bits(out.values(), expected, scaled ? "scaled" : "plain");
      const BasicMatrix<std::uint16_t> rounded = stored.values();
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < rounded.view().stride; ++c) {
          const float s = scaled ? scale[static_cast<std::size_t>(r)] : 1.0F;
          const auto want = c < cols ? nearest_bf16(s * x.view().row(r)[c]) : 0x7fc0;
          ASSERT_EQ(rounded.view().row(r)[c], want) << r << ' ' << c;
        }
      }
    }
  });
}

TEST_F(AggregateTwin, InnerReadsAndWritesColumnRanges) {
  // Rows of 4 and 8 columns are aligned to 16 bytes, the others are not.
  const Csr csr = random_csr(50, 50);
  const DeviceCsr device_csr = on_device_csr(csr);
  for (const std::int64_t cols : {1, 5, 16, 41, 100, 130}) {
    for (const std::int64_t from : {4, 5}) {
      for (const std::int64_t to : {3, 8}) {
        SCOPED_TRACE(::testing::Message() << cols << " columns from " << from << " to " << to);
        const Matrix x = normal_matrix(50, cols + 9);
        const Matrix before = normal_matrix(50, cols + 11);
        const DeviceMatrix device_x = on_device(x);
        const ConstMatrixView host_from = ConstMatrixView(x.view()).col_range(from, cols);
        const ConstMatrixView device_from = ConstMatrixView(device_x.view()).col_range(from, cols);
        const Matrix expected = copy_of(before);
        cpu::aggregate_inner_reference(csr.view(), host_from, nullptr, 1, nullptr,
                                       expected.view().col_range(to, cols));
        const DeviceMatrix out = on_device(before);
        cuda->aggregate_inner(device_csr.view(), device_from, nullptr, 1, nullptr,
                              out.view().col_range(to, cols), {});
        expect_same_bits(out.values(), expected, "fp32");

        const BasicDeviceMatrix<std::uint16_t> stored(*cuda, *account, 50, cols);
        const Matrix expected16 = copy_of(before);
        cpu::aggregate_inner_bf16_reference(csr.view(), host_from, nullptr, 1, nullptr,
                                            expected16.view().col_range(to, cols));
        const DeviceMatrix out16 = on_device(before);
        cuda->aggregate_inner_bf16(device_csr.view(), device_from, nullptr, 1, nullptr,
                                   out16.view().col_range(to, cols), stored.view());
        expect_same_bits(out16.values(), expected16, "bf16");
      }
    }
  }
}

TEST_F(AggregateTwin, HaloSumsWhatPackedRowsDecodeTo) {
  for (const RowFormat format : kFormats) {
    SCOPED_TRACE(::testing::Message() << format.bits << " bits, minimum " << format.has_minimum);
    for_row_sizes([&](std::int64_t rows, std::int64_t cols) {
      const Csr csr = random_csr(rows, 40, 300, cols % 2 == 1);
      const Packed packed(40, cols, format, 3.0F);
      const auto row_scale = random_scale(rows, 4);
      const Matrix before = normal_matrix(rows, cols);
      check_halo(csr, packed, rows % 2 == 0 ? nullptr : &row_scale, 0, before, 0);
    });
  }
}

// A lane sums eight columns; 2 to 32 lanes share a row.
TEST_F(AggregateTwin, HaloSumsRowsThatFillTheLanesOrNot) {
  const Csr csr = random_csr(4, 40, 70, true);
  for (const RowFormat format : kFormats) {
    if (!format.is_codes()) continue;
    for (const std::int64_t lanes : {2, 4, 8, 16, 32}) {
      for (const std::int64_t more : {-1, 0, 1}) {
        const std::int64_t cols = 8 * lanes + more;
        SCOPED_TRACE(::testing::Message() << format.bits << " bits, minimum " << format.has_minimum
                                          << ", " << cols << " columns");
        const Packed packed(40, cols, format);
        check_halo(csr, packed, nullptr, 0, normal_matrix(4, cols), 0);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(AggregateTwin, HaloSumsGroups) {
  const Csr csr = random_csr(31, 40, 300, true);
  const auto row_scale = random_scale(31, 4);
  for (RowFormat format : kFormats) {
    format.groups = 3;
    for (const std::int64_t width : {1, 7, 8, 16, 40, 64, 100}) {
      SCOPED_TRACE(::testing::Message() << format.bits << " bits, minimum " << format.has_minimum
                                        << ", " << width << " columns each");
      const Packed packed(40, 3 * width, format, 3.0F);
      check_halo(csr, packed, &row_scale, 4, normal_matrix(31, 3 * width + 9), 0);
    }
  }
}

TEST_F(AggregateTwin, HaloRowsMayBeginAtAnyByte) {
  const Csr csr = random_csr(20, 30, 300, true);
  for (const RowFormat format : kFormats) {
    for (const std::int64_t cols : {3, 41, 128, 256, 300}) {
      const Packed packed(30, cols, format);
      const Matrix before = normal_matrix(20, cols);
      for (const std::size_t shift : {1U, 2U, 3U, 4U, 6U, 8U}) {
        SCOPED_TRACE(::testing::Message() << format.bits << " bits, minimum " << format.has_minimum
                                          << ", " << cols << " columns, " << shift << " bytes on");
        check_halo(csr, packed, nullptr, 0, before, shift);
      }
    }
  }
}

TEST_F(AggregateTwin, HaloWritesItsBlockOfColumnsOnly) {
  const Csr csr = random_csr(31, 30, 300, true);
  const auto row_scale = random_scale(31, 4);
  for (const RowFormat format : kFormats) {
    for (const std::int64_t cols : {1, 47, 130, 256}) {
      for (const std::int64_t col_begin : {4, 5}) {
        SCOPED_TRACE(::testing::Message()
                     << format.bits << " bits, " << cols << " columns at " << col_begin);
        const Packed packed(30, cols, format);
        check_halo(csr, packed, &row_scale, col_begin, normal_matrix(31, cols + 9), 0);
      }
    }
  }
}

// A message of more than 4 GiB, in which only the rows that are used take memory.
TEST_F(AggregateTwin, HaloRowsMayLieFurtherApartThan32BitsCanSay) {
  const Csr csr = random_csr(20, 30, 600, true);
  const DeviceCsr device_csr = on_device_csr(csr);
  for (const RowFormat format : kFormats) {
    if (!format.is_codes()) continue;
    for (const std::int64_t cols : {256, 320}) {
      SCOPED_TRACE(::testing::Message() << format.bits << " bits, " << cols << " columns");
      const Packed packed(30, cols, format);
      const auto bytes = on_device(packed.bytes);
      const Matrix before = normal_matrix(20, cols);
      const DeviceMatrix out = on_device(before), out_far = on_device(before);
      PackedRows rows = packed.rows;
      rows.data = bytes.data();
      cuda->aggregate_halo(device_csr.view(), rows, nullptr, out.view(), {});

      const auto row_bytes = static_cast<std::int64_t>(format.row_bytes(cols));
      const std::int64_t absent = (std::int64_t{1} << 32) / row_bytes / 8 * 8;
      Csr moved = csr;
      for (std::int32_t& column : moved.columns) column += static_cast<std::int32_t>(absent);
      const DeviceCsr device_moved = on_device_csr(moved);
      rows.rows += absent;
      rows.data =
          reinterpret_cast<const std::byte*>(reinterpret_cast<std::uintptr_t>(rows.data) -
                                             static_cast<std::uintptr_t>(absent * row_bytes));
      cuda->aggregate_halo(device_moved.view(), rows, nullptr, out_far.view(), {});
      expect_same_bits(out_far.values(), out.values(), "sums");
    }
  }
}

// A row of more than 512 entries is summed by a whole block, which may sum several such rows.
class HubTwin : public AggregateTwin {
 protected:
  Csr hubs(bool values) {
    Csr csr{{0}, {}};
    for (const int degree : {3, 511, 512, 513, 0, 1029, 2, 2003, 40, 545, 1, 0, 700}) {
      for (int e = 0; e < degree; ++e) {
        csr.columns.push_back(static_cast<std::int32_t>(random_() % 40));
      }
      csr.offsets.push_back(static_cast<std::int64_t>(csr.columns.size()));
    }
    if (values) csr.values = test::random_entry_values(csr.columns.size(), 6);
    return csr;
  }
  static constexpr std::int64_t kHubRows = 13;
};

TEST_F(HubTwin, HaloIsSummedToTheEnd) {
  const Csr plain = hubs(false);
  const Csr weighted = hubs(true);
  const auto row_scale = random_scale(kHubRows, 4);
  for (const RowFormat format : kFormats) {
    for (const std::int64_t cols : {1, 41, 130, 256, 600}) {
      SCOPED_TRACE(::testing::Message() << format.bits << " bits, " << cols << " columns");
      const Packed packed(40, cols, format);
      check_halo(cols % 4 == 0 ? weighted : plain, packed, cols == 130 ? nullptr : &row_scale, 0,
                 normal_matrix(kHubRows, cols), cols == 256 ? 1 : 0);
    }
  }
}

TEST_F(HubTwin, InnerHasTheBitsOfThePlainLoops) {
  const Csr plain = hubs(false);
  const Csr weighted = hubs(true);
  const auto scale = random_scale(40, 3);
  const auto device_scale = on_device(scale);
  for (const std::int64_t cols : {1, 30, 64, 130, 600}) {
    for (const std::int64_t from : {0, 5}) {
      SCOPED_TRACE(::testing::Message() << cols << " columns from " << from);
      const Csr& csr = (cols == 64) == (from == 0) ? plain : weighted;
      const DeviceCsr device_csr = on_device_csr(csr);
      const Matrix x = normal_matrix(40, cols + 5);
      const DeviceMatrix device_x = on_device(x);
      const ConstMatrixView host_from = ConstMatrixView(x.view()).col_range(from, cols);
      const ConstMatrixView device_from = ConstMatrixView(device_x.view()).col_range(from, cols);
      const Matrix expected = normal_matrix(kHubRows, cols);
      const Matrix expected16 = copy_of(expected);
      const DeviceMatrix out = on_device(expected);
      const DeviceMatrix out16 = on_device(expected);
      const BasicDeviceMatrix<std::uint16_t> stored(*cuda, *account, 40, cols);
      cpu::aggregate_inner_reference(csr.view(), host_from, scale.data(), 1.5F, scale.data(),
                                     expected.view());
      cuda->aggregate_inner(device_csr.view(), device_from, device_scale.data(), 1.5F,
                            device_scale.data(), out.view(), {});
      expect_same_bits(out.values(), expected, "fp32");
      cpu::aggregate_inner_bf16_reference(csr.view(), host_from, scale.data(), 1.5F, scale.data(),
                                          expected16.view());
      cuda->aggregate_inner_bf16(device_csr.view(), device_from, device_scale.data(), 1.5F,
                                 device_scale.data(), out16.view(), stored.view());
      expect_same_bits(out16.values(), expected16, "bf16");
    }
  }
}

}  // namespace
}  // namespace heliograph
