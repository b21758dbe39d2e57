#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/cuda/blas_functions.hpp"
#include "cuda/device_arrays.hpp"

namespace heliograph {
namespace {

using GemmTwin = TwinTest;

struct Sizes {
  std::int64_t rows, in, out;
};
constexpr Sizes kSizes[] = {{0, 3, 4},      {1, 1, 1},     {31, 33, 47},  {33, 31, 65},
                            {257, 130, 41}, {500, 602, 7}, {97, 257, 96}, {1, 256, 256}};

/// Two sums of `terms` products of normal values, each rounded on its way: the sums grow to
/// sqrt(terms), hardly a product exceeds 20.
double bound(std::int64_t terms) { return 2e-6 * (20 + static_cast<double>(terms)); }

TEST(CuBlas, IsFoundWithoutADevice) {
  const auto text = [](cublasStatus_t status) {
    return std::string(cuda::blas_functions().status_string(status));
  };
  EXPECT_NE(text(CUBLAS_STATUS_INVALID_VALUE), "");
  EXPECT_NE(text(CUBLAS_STATUS_INVALID_VALUE), text(CUBLAS_STATUS_ALLOC_FAILED));
}

TEST_F(GemmTwin, ProductsAreTheCpuOnes) {
  for (const Sizes s : kSizes) {
    for (const bool transpose : {false, true}) {
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(::testing::Message()
                     << s.rows << " x " << s.in << " x " << s.out
                     << (transpose ? ", b transposed" : "") << (accumulate ? ", added" : ""));
        const Matrix a = normal_matrix(s.rows, s.in);
        const Matrix b = transpose ? normal_matrix(s.out, s.in) : normal_matrix(s.in, s.out);
        const Matrix c = normal_matrix(s.rows, s.out);
        const DeviceMatrix device_a = on_device(a), device_b = on_device(b),
                           device_c = on_device(c);
        cuda->gemm(device_a.view(), device_b.view(), transpose, accumulate, device_c.view());
        cpu->gemm(a.view(), b.view(), transpose, accumulate, c.view());
        expect_near(device_c.values().view(), c.view(), bound(s.in));
      }
    }
  }
}

TEST_F(GemmTwin, GradientsAreTheCpuOnes) {
  for (const Sizes s : kSizes) {
    SCOPED_TRACE(::testing::Message() << s.rows << " x " << s.in << " x " << s.out);
    const Matrix a = normal_matrix(s.rows, s.in);
    const Matrix d = normal_matrix(s.rows, s.out);
    std::vector<float> expected(static_cast<std::size_t>(s.in * s.out), 7.0F);
    const DeviceMatrix device_a = on_device(a), device_d = on_device(d);
    const DeviceArray<float> g = on_device(expected);
    cuda->gemm_gradient(device_a.view(), device_d.view(), {g.data(), nullptr, s.in, s.out});
    cpu->gemm_gradient(a.view(), d.view(), {expected.data(), nullptr, s.in, s.out});
    expect_near(g.values(), expected, bound(s.rows));
  }
}

TEST_F(GemmTwin, ColumnsBesideAViewAreLeftAlone) {
  const Matrix a = normal_matrix(33, 17);
  const Matrix b = normal_matrix(17, 5);
  const Matrix c = normal_matrix(33, 40);
  const DeviceMatrix device_a = on_device(a), device_b = on_device(b), device_c = on_device(c);
  cuda->gemm(device_a.view(), device_b.view(), false, false, device_c.view().col_range(11, 5));
  cpu->gemm(a.view(), b.view(), false, false, c.view().col_range(11, 5));
  const Matrix result = device_c.values();
  expect_near(result.view().col_range(11, 5), c.view().col_range(11, 5), bound(17));
  expect_near(result.view().col_range(0, 11), c.view().col_range(0, 11), 0);
  expect_near(result.view().col_range(16, 24), c.view().col_range(16, 24), 0);
}

}  // namespace
}  // namespace heliograph
