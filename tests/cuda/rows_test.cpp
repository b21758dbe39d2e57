#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/noise.hpp"
#include "cuda/device_arrays.hpp"
#include "heliograph/options.hpp"

// Compares row-wise kernels with their CPU twins. Both work in fp32, in different orders and with
// different roundings of products.

namespace heliograph {
namespace {

/// Rows and columns. The sizes include rows that are too wide for registers.
struct RowShape {
  std::int64_t rows, cols;
};
constexpr RowShape kRowShapes[] = {{0, 5},    {1, 1},    {31, 33},  {33, 31},  {257, 64},
                                   {40, 256}, {40, 257}, {9, 1000}, {20000, 3}};

/// The arguments of NormAct on the host.
struct NormArguments {
  std::vector<float> bias, gain, shift, mean, rstd;
  std::vector<std::int64_t> ids;
};

std::uint64_t dropout_stream() {
  return stream_key(3, Purpose::dropout, {5}, site_key(1, Direction::forward));
}

/// The passes that a NormAct can be.
struct Kind {
  NormLayer norm = NormLayer::layer;
  ActivationFunction activation = ActivationFunction::relu;
  bool biased = true;
};
constexpr Kind kKinds[] = {
    {NormLayer::none, ActivationFunction::relu, true},
    {NormLayer::layer, ActivationFunction::relu, true},
    {NormLayer::layer, ActivationFunction::none, false},
    {NormLayer::batch, ActivationFunction::relu, false},
    {NormLayer::batch, ActivationFunction::gelu, false},
    {NormLayer::none, ActivationFunction::gelu, true},
    {NormLayer::layer, ActivationFunction::elu, true},
};

/// The same on the device, for as long as this object lives.
struct OnDevice {
  DeviceArray<float> bias, gain, shift, mean, rstd;
  DeviceArray<std::int64_t> ids;

  NormAct norm_act(const Kind& kind, std::uint32_t threshold) const {
    return {kind.biased ? bias.data() : nullptr,
            kind.norm != NormLayer::none ? gain.data() : nullptr,
            kind.norm != NormLayer::none ? shift.data() : nullptr,
            mean.data(),
            rstd.data(),
            kind.norm == NormLayer::batch,
            kind.activation,
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
    // A value a row for LayerNorm, a value a column for BatchNorm.
    const auto statistics = static_cast<std::size_t>(std::max(s.rows, s.cols));
    a.mean.resize(statistics, -0.7F);
    a.rstd.resize(statistics, 0.5F);
    for (std::int64_t r = 0; r < s.rows; ++r) a.ids.push_back(1000 + 7 * r);
    return a;
  }
  OnDevice place(const NormArguments& a) {
    return {on_device(a.bias), on_device(a.gain), on_device(a.shift),
            on_device(a.mean), on_device(a.rstd), on_device(a.ids)};
  }
  /// Calls body(shape, kind, dropout threshold, with residual) for all of them.
  template <class Body>
  static void for_kinds(const Body& body) {
    for (const RowShape s : kRowShapes) {
      int i = 0;
      for (const Kind& kind : kKinds) {
        for (const bool residual : {false, true}) {
          const std::uint32_t threshold = (++i & 2) != 0 ? 20000 : 0;
          SCOPED_TRACE(::testing::Message()
                       << s.rows << " x " << s.cols << " kind " << (&kind - kKinds) << " dropout "
                       << threshold << " residual " << residual);
          body(s, kind, threshold, residual);
        }
      }
    }
  }
};

NormAct on_host(NormArguments& a, const Kind& kind, std::uint32_t threshold) {
  return {kind.biased ? a.bias.data() : nullptr,
          kind.norm != NormLayer::none ? a.gain.data() : nullptr,
          kind.norm != NormLayer::none ? a.shift.data() : nullptr,
          a.mean.data(),
          a.rstd.data(),
          kind.norm == NormLayer::batch,
          kind.activation,
          {threshold, dropout_stream(), a.ids.data()}};
}

/// A row's sums are of `cols` terms; what follows multiplies by rstd, below 40 for rows of more
/// than one column, and by values below 5.
double row_bound(std::int64_t cols) { return 2e-5 * (1 + std::sqrt(static_cast<double>(cols))); }

TEST_F(RowTwin, NormActForward) {
  for_kinds([&](RowShape s, const Kind& kind, std::uint32_t threshold, bool with_residual) {
    NormArguments a = arguments(s);
    const OnDevice d = place(a);
    const Matrix y = normal_matrix(s.rows, s.cols);
    const Matrix residual = normal_matrix(s.rows, s.cols);
    const Matrix out = normal_matrix(s.rows, s.cols);
    const DeviceMatrix device_y = on_device(y), device_residual = on_device(residual);
    const DeviceMatrix device_out = on_device(out);
    const ConstMatrixView none;
    cuda->norm_act_forward(device_y.view(), d.norm_act(kind, threshold),
                           with_residual ? ConstMatrixView(device_residual.view()) : none,
                           device_out.view());
    cpu->norm_act_forward(y.view(), on_host(a, kind, threshold),
                          with_residual ? ConstMatrixView(residual.view()) : none, out.view());
    expect_near(device_out.values().view(), out.view(), row_bound(s.cols));
    expect_near(d.mean.values(), a.mean, row_bound(s.cols));
    // One column has no spread: rstd is 1 / sqrt(1e-5).
    expect_near(d.rstd.values(), a.rstd, row_bound(s.cols) + (s.cols == 1 ? 1e-3 : 0));
  });
}

TEST_F(RowTwin, NormActBackward) {
  for_kinds([&](RowShape s, const Kind& kind, std::uint32_t threshold, bool with_residual) {
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
      NormActGradients all;
      all.accumulate = with_residual;
      if (kind.biased) all.bias = part(0);
      if (kind.norm != NormLayer::none) all.gain = part(1);
      if (kind.norm != NormLayer::none) all.shift = part(2);
      return all;
    };
    cuda->norm_act_backward(device_y.view(), d.norm_act(kind, threshold), device_g.view(),
                            with_residual ? device_passed.view() : MatrixView{},
                            gradients(device_sums.data()));
    cpu->norm_act_backward(y.view(), on_host(a, kind, threshold), g.view(),
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
  cuda->norm_act_forward(device_y.view(), d.norm_act({}, 0), {}, out.view());
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

    cuda->axpby(1, device_x.view(), 1, device_out.view());
    cpu->axpby(1, x.view(), 1, out.view());
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
