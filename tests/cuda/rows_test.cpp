#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "core/noise.hpp"
#include "cuda/device_arrays.hpp"

// Compares row-wise kernels with their CPU twins. Both work in fp32, in different orders and with
// different roundings of products.

namespace heliograph {
namespace {

/// Rows and columns. The sizes include rows that are too wide for registers.
struct RowShape {
  std::int64_t rows, cols;
};
constexpr RowShape kRowShapes[] = {{0, 5},    {1, 1},    {31, 33},  {33, 31},
                                   {257, 64}, {40, 257}, {9, 1000}, {20000, 3}};

/// The arguments of NormAct on the host.
struct NormArguments {
  std::vector<float> bias, gain, shift, mean, rstd;
  std::vector<std::int64_t> ids;
};

std::uint64_t dropout_stream() {
  return stream_key(3, Purpose::dropout, {5}, site_key(1, Direction::forward));
}

/// The same on the device, for as long as this object lives.
struct OnDevice {
  DeviceArray<float> bias, gain, shift, mean, rstd;
  DeviceArray<std::int64_t> ids;

  NormAct norm_act(bool norm, std::uint32_t threshold) const {
    return {bias.data(),
            norm ? gain.data() : nullptr,
            norm ? shift.data() : nullptr,
            mean.data(),
            rstd.data(),
            {threshold, dropout_stream(), ids.data()}};
  }
};

class RowTwin : public TwinTest {
 protected:
  NormArguments arguments(RowShape s) {
    NormArguments a;
    a.bias = normal_values(s.cols);
    a.gain = normal_values(s.cols);
    a.shift = normal_values(s.cols);
    a.mean.resize(static_cast<std::size_t>(s.rows), -7.0F);
    a.rstd.resize(static_cast<std::size_t>(s.rows), 0.5F);
    for (std::int64_t r = 0; r < s.rows; ++r) a.ids.push_back(1000 + 7 * r);
    return a;
  }
  OnDevice place(const NormArguments& a) {
    return {on_device(a.bias), on_device(a.gain), on_device(a.shift),
            on_device(a.mean), on_device(a.rstd), on_device(a.ids)};
  }
  /// Calls body(shape, norm, dropout threshold, with residual) for all of them.
  template <class Body>
  static void for_norms(const Body& body) {
    for (const RowShape s : kRowShapes) {
      for (int i = 0; i < 8; ++i) {
        const bool norm = (i & 4) != 0, residual = (i & 1) != 0;
        const std::uint32_t threshold = (i & 2) != 0 ? 20000 : 0;
        SCOPED_TRACE(::testing::Message()
                     << s.rows << " x " << s.cols << " norm " << norm << " dropout " << threshold);
        body(s, norm, threshold, residual);
      }
    }
  }
};

NormAct on_host(NormArguments& a, bool norm, std::uint32_t threshold) {
  return {a.bias.data(),
          norm ? a.gain.data() : nullptr,
          norm ? a.shift.data() : nullptr,
          a.mean.data(),
          a.rstd.data(),
          {threshold, dropout_stream(), a.ids.data()}};
}

/// A row's sums are of `cols` terms; what follows multiplies by rstd, below 20 for rows of more
/// than one column, and by values below 5.
double row_bound(std::int64_t cols) { return 1e-5 * (1 + std::sqrt(static_cast<double>(cols))); }

TEST_F(RowTwin, NormActForward) {
  for_norms([&](RowShape s, bool norm, std::uint32_t threshold, bool with_residual) {
    NormArguments a = arguments(s);
    const OnDevice d = place(a);
    const Matrix y = normal_matrix(s.rows, s.cols);
    const Matrix residual = normal_matrix(s.rows, s.cols);
    const Matrix out = normal_matrix(s.rows, s.cols);
    const DeviceMatrix device_y = on_device(y), device_residual = on_device(residual);
    const DeviceMatrix device_out = on_device(out);
    const ConstMatrixView none;
    cuda->norm_act_forward(device_y.view(), d.norm_act(norm, threshold),
                           with_residual ? ConstMatrixView(device_residual.view()) : none,
                           device_out.view());
    cpu->norm_act_forward(y.view(), on_host(a, norm, threshold),
                          with_residual ? ConstMatrixView(residual.view()) : none, out.view());
    expect_near(device_out.values().view(), out.view(), row_bound(s.cols));
    expect_near(d.mean.values(), a.mean, row_bound(s.cols));
    // One column has no spread: rstd is 1 / sqrt(1e-5).
    expect_near(d.rstd.values(), a.rstd, row_bound(s.cols) + (s.cols == 1 ? 1e-3 : 0));
  });
}

TEST_F(RowTwin, NormActBackward) {
  for_norms([&](RowShape s, bool norm, std::uint32_t threshold, bool with_residual) {
    NormArguments a = arguments(s);
    a.mean.assign(a.mean.size(), 0.25F);  // any values will do
    a.rstd.assign(a.rstd.size(), 0.75F);
    const OnDevice d = place(a);
    const Matrix y = normal_matrix(s.rows, s.cols);
    const Matrix g = normal_matrix(s.rows, s.cols);
    const Matrix passed = normal_matrix(s.rows, s.cols);
    const DeviceMatrix device_y = on_device(y), device_g = on_device(g);
    const DeviceMatrix device_passed = on_device(passed);
    std::vector<float> sums(static_cast<std::size_t>(3 * s.cols), 3.0F);
    const DeviceArray<float> device_sums = on_device(sums);
    const auto gradients = [&](float* at) {
      const auto part = [&](std::int64_t i) {
        return GradientView{at + i * s.cols, nullptr, 1, s.cols};
      };
      return norm ? NormActGradients{part(0), part(1), part(2)} : NormActGradients{part(0), {}, {}};
    };
    cuda->norm_act_backward(device_y.view(), d.norm_act(norm, threshold), device_g.view(),
                            with_residual ? device_passed.view() : MatrixView{},
                            gradients(device_sums.data()));
    cpu->norm_act_backward(y.view(), on_host(a, norm, threshold), g.view(),
                           with_residual ? passed.view() : MatrixView{}, gradients(sums.data()));
    expect_near(device_g.values().view(), g.view(), row_bound(s.cols));
    expect_near(device_passed.values().view(), passed.view(), 0);
    // Sums over rows, of values below 10.
    expect_near(device_sums.values(), sums, 10 * row_bound(s.rows));
  });
}

TEST_F(RowTwin, OverflowAndNanReachTheResult) {
  Matrix y = normal_matrix(3, 40);
  y.view().row(0)[7] = std::numeric_limits<float>::quiet_NaN();
  for (std::int64_t c = 0; c < 40; ++c) y.view().row(1)[c] = (c % 2 == 0 ? 1e25F : -1e25F);
  NormArguments a = arguments({3, 40});
  const OnDevice d = place(a);
  const DeviceMatrix device_y = on_device(y), out = device_matrix(3, 40);
  cuda->norm_act_forward(device_y.view(), d.norm_act(true, 0), {}, out.view());
  const Matrix result = out.values();
  for (std::int64_t c = 0; c < 40; ++c) {
    EXPECT_TRUE(std::isnan(result.view().row(0)[c]));
    EXPECT_TRUE(std::isnan(result.view().row(1)[c]));
    EXPECT_TRUE(std::isfinite(result.view().row(2)[c]));
  }
}

TEST_F(RowTwin, ElementwiseKernelsHaveTheBitsOfTheCpu) {
  for (const RowShape s : kRowShapes) {
    SCOPED_TRACE(::testing::Message() << s.rows << " x " << s.cols);
    NormArguments a = arguments(s);
    const DeviceArray<float> bias = on_device(a.bias);
    const DeviceArray<std::int64_t> ids = on_device(a.ids);
    const Matrix x = normal_matrix(s.rows, s.cols);
    const Matrix out = normal_matrix(s.rows, s.cols);
    const DeviceMatrix device_x = on_device(x), device_out = on_device(out);

    cuda->add(device_out.view(), device_x.view());
    cpu->add(out.view(), x.view());
    expect_near(device_out.values().view(), out.view(), 0);

    cuda->add_bias(device_out.view(), bias.data());
    cpu->add_bias(out.view(), a.bias.data());
    expect_near(device_out.values().view(), out.view(), 0);

    cuda->dropout(device_x.view(), {30000, dropout_stream(), ids.data()}, device_out.view());
    cpu->dropout(x.view(), {30000, dropout_stream(), a.ids.data()}, out.view());
    expect_near(device_out.values().view(), out.view(), 0);
  }
}

TEST_F(RowTwin, ColumnSums) {
  for (const RowShape s : kRowShapes) {
    SCOPED_TRACE(::testing::Message() << s.rows << " x " << s.cols);
    const Matrix d = normal_matrix(s.rows, s.cols);
    const DeviceMatrix device_d = on_device(d);
    std::vector<float> sums(static_cast<std::size_t>(s.cols), 3.0F);
    const DeviceArray<float> device_sums = on_device(sums);
    cuda->column_sums(device_d.view(), {device_sums.data(), nullptr, 1, s.cols});
    cpu->column_sums(d.view(), {sums.data(), nullptr, 1, s.cols});
    expect_near(device_sums.values(), sums, row_bound(s.rows));
    const std::vector<float> first = device_sums.values();
    cuda->column_sums(device_d.view(), {device_sums.data(), nullptr, 1, s.cols});
    const std::vector<float> second = device_sums.values();
    EXPECT_EQ(0, std::memcmp(first.data(), second.data(), first.size() * sizeof(float)));
  }
}

}  // namespace
}  // namespace heliograph
