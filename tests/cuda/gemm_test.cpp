#include "core/cuda/gemm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/cuda/blas_functions.hpp"
#include "core/cuda/runtime.hpp"
#include "cuda/device_arrays.hpp"

namespace heliograph {
namespace {

using GemmTwin = TwinTest;

struct Sizes {
  std::int64_t rows, in, out;
};
constexpr Sizes kSizes[] = {{0, 3, 4},     {1, 1, 1},      {31, 33, 47},
                            {33, 31, 65},  {257, 130, 41}, {500, 602, 7},
                            {97, 257, 96}, {1, 256, 256},  {5, 0, 3}};

/// Two sums of `terms` products of normal values, each rounded on its way: the sums grow to
/// sqrt(terms), hardly a product exceeds 20.
double product_bound(std::int64_t terms) { return 2e-6 * (20 + static_cast<double>(terms)); }

bool equal(ConstMatrixView a, ConstMatrixView b) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    if (!std::equal(a.row(r), a.row(r) + a.cols, b.row(r))) return false;
  }
  return true;
}

/// The rows of `m`, one behind the other.
std::vector<float> rows_of(ConstMatrixView m) {
  std::vector<float> values;
  for (std::int64_t r = 0; r < m.rows; ++r) {
    values.insert(values.end(), m.row(r), m.row(r) + m.cols);
  }
  return values;
}

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
        expect_near(device_c.values().view(), c.view(), product_bound(s.in));
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
    expect_near(g.values(), expected, product_bound(s.rows));
  }
}

/// A test of kernels that may round the factors of products to TF32.
class Tf32Gemm : public TwinTest {
 protected:
  void SetUp() override {
    TwinTest::SetUp();
    if (cuda != nullptr) tf32 = make_cuda_kernels(0, 1, {.tf32 = true});
  }
  /// The product of a and b by these kernels.
  Matrix product(Kernels& kernels, const DeviceMatrix& a, const DeviceMatrix& b) {
    const DeviceMatrix c = device_matrix(a.view().rows, b.view().cols);
    cuda->device().finish();  // of the operands; the kernels have streams of their own
    kernels.gemm(a.view(), b.view(), false, false, c.view());
    kernels.device().finish();
    return c.values();
  }
  std::unique_ptr<Kernels> tf32;
};

TEST_F(Tf32Gemm, ErrorsAreThoseOfRoundedFactorsAndRepeatThemselves) {
  // Each factor is off by a share of 2^-11 at most where it is rounded to nearest, 2^-10 where its
  // last bits are cut off; a term of two then by twice that and its square, and fp32 sums as ever.
  constexpr double kFactor = 1.0 / 1024;
  constexpr double kTerm = 2 * kFactor + kFactor * kFactor;
  for (const Sizes s : kSizes) {
    SCOPED_TRACE(::testing::Message() << s.rows << " x " << s.in << " x " << s.out);
    const Matrix a = normal_matrix(s.rows, s.in), b = normal_matrix(s.in, s.out);
    const DeviceMatrix device_a = on_device(a), device_b = on_device(b);
    const Matrix rounded = product(*tf32, device_a, device_b);
    for (std::int64_t r = 0; r < s.rows; ++r) {
      for (std::int64_t c = 0; c < s.out; ++c) {
        double sum = 0, sizes = 0;
        for (std::int64_t i = 0; i < s.in; ++i) {
          const double term = static_cast<double>(a.view().row(r)[i]) * b.view().row(i)[c];
          sum += term;
          sizes += std::abs(term);
        }
        ASSERT_NEAR(rounded.view().row(r)[c], sum, kTerm * sizes + product_bound(s.in))
            << r << ", " << c;
      }
    }
    EXPECT_TRUE(equal(product(*tf32, device_a, device_b).view(), rounded.view()));
  }
}

TEST_F(Tf32Gemm, RoundsOnlyWhereItIsAskedForAndNotWhileExact) {
  const Matrix a = normal_matrix(512, 512), b = normal_matrix(512, 512);
  const DeviceMatrix device_a = on_device(a), device_b = on_device(b);
  const Matrix fp32 = product(*cuda, device_a, device_b);
  EXPECT_FALSE(equal(product(*tf32, device_a, device_b).view(), fp32.view()));
  tf32->set_exact(true);
  EXPECT_TRUE(equal(product(*tf32, device_a, device_b).view(), fp32.view()));
  tf32->set_exact(false);
  EXPECT_FALSE(equal(product(*tf32, device_a, device_b).view(), fp32.view()));
  cuda->set_exact(false);
  EXPECT_TRUE(equal(product(*cuda, device_a, device_b).view(), fp32.view()));
}

TEST_F(Tf32Gemm, ProductsWithBiasAreRoundedToo) {
  const Matrix a = normal_matrix(512, 512), b = normal_matrix(512, 512);
  const DeviceMatrix device_a = on_device(a), device_b = on_device(b);
  const DeviceArray<float> bias = on_device(normal_values(512));
  const auto product_with_bias = [&](Kernels& kernels) {
    const DeviceMatrix c = device_matrix(512, 512);
    cuda->device().finish();
    kernels.gemm_bias(device_a.view(), device_b.view(), false, bias.data(), c.view());
    kernels.device().finish();
    return c.values();
  };
  const Matrix fp32 = product_with_bias(*cuda), rounded = product_with_bias(*tf32);
  EXPECT_FALSE(equal(rounded.view(), fp32.view()));
  expect_near(rounded.view(), fp32.view(), 0.1);  // as for gradients
  tf32->set_exact(true);
  EXPECT_TRUE(equal(product_with_bias(*tf32).view(), fp32.view()));
}

TEST_F(Tf32Gemm, GradientsAreRoundedToo) {
  const Matrix a = normal_matrix(700, 256), d = normal_matrix(700, 256);
  const DeviceMatrix device_a = on_device(a), device_d = on_device(d);
  const auto gradient = [&](Kernels& kernels) {
    const DeviceArray<float> g = on_device(std::vector<float>(256 * 256));
    cuda->device().finish();
    kernels.gemm_gradient(device_a.view(), device_d.view(), {g.data(), nullptr, 256, 256});
    kernels.device().finish();
    return g.values();
  };
  const std::vector<float> rounded = gradient(*tf32), fp32 = gradient(*cuda);
  EXPECT_NE(rounded, fp32);
  // Sums of 700 terms, each wrong by a share of 2^-9 at most, most by much less and either way.
  expect_near(rounded, fp32, 0.1);
}

TEST_F(GemmTwin, ProductsWithBiasAreTheCpuOnes) {
  for (const Sizes s : kSizes) {
    for (const bool packed : {false, true}) {
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(::testing::Message()
                     << s.rows << " x " << s.in << " x " << s.out
                     << (packed ? ", b without padding" : "") << (accumulate ? ", added" : ""));
        const Matrix a = normal_matrix(s.rows, s.in), b = normal_matrix(s.in, s.out);
        const Matrix c = normal_matrix(s.rows, s.out);
        const std::vector<float> bias = normal_values(s.out);
        const std::vector<float> weights = rows_of(b.view());
        const DeviceMatrix device_a = on_device(a), device_b = on_device(b),
                           device_c = on_device(c);
        const DeviceArray<float> device_bias = on_device(bias), device_weights = on_device(weights);
        const ConstMatrixView factor =
            packed ? ConstMatrixView{device_weights.data(), s.in, s.out, s.out}
                   : ConstMatrixView(device_b.view());
        cuda->gemm_bias(device_a.view(), factor, accumulate, device_bias.data(), device_c.view());
        cpu->gemm_bias(a.view(), b.view(), accumulate, bias.data(), c.view());
        const Matrix result = device_c.values();
        expect_near(result.view(), c.view(), product_bound(s.in));
        // The padding is not written.
        for (std::int64_t r = 0; r < s.rows; ++r) {
          for (std::int64_t i = s.out; i < c.view().stride; ++i) {
            EXPECT_TRUE(std::isnan(result.view().row(r)[i]));
          }
        }
      }
    }
  }
}

TEST_F(GemmTwin, BiasesAreAddedAsProductsWrite) {
  // Where cublasLt has no algorithm, gemm_bias adds the bias in a pass of its own, so that no other
  // test would notice.
  for (const bool tf32 : {false, true}) {
    cuda::Gemm gemm(*cuda->device().queue(), tf32, account.get());
    for (const Sizes s : {Sizes{257, 130, 41}, Sizes{500, 64, 64}}) {
      SCOPED_TRACE(::testing::Message() << s.out << " columns, tf32 " << tf32);
      const DeviceMatrix a = on_device(normal_matrix(s.rows, s.in));
      const DeviceMatrix c = device_matrix(s.rows, s.out);
      const DeviceArray<float> b = on_device(normal_values(s.in * s.out));
      const DeviceArray<float> bias = on_device(normal_values(s.out));
      const ConstMatrixView weights{b.data(), s.in, s.out, s.out};
      EXPECT_TRUE(gemm.multiply_with_bias(a.view(), weights, false, bias.data(), c.view()));
      EXPECT_TRUE(gemm.multiply_with_bias(a.view(), weights, true, bias.data(), c.view()));
      cuda->device().finish();
    }
  }
}

TEST_F(GemmTwin, ProductsWithBiasRepeatTheirBitsAndTakeEachItsBias) {
  const Matrix a = normal_matrix(300, 257), b = normal_matrix(257, 41);
  const DeviceMatrix device_a = on_device(a), device_b = on_device(b);
  const std::vector<float> zero(41, 0.0F), two(41, 2.0F);
  const DeviceArray<float> device_zero = on_device(zero), device_two = on_device(two);
  const auto product = [&](const DeviceArray<float>& bias) {
    const DeviceMatrix c = device_matrix(300, 41);
    cuda->gemm_bias(device_a.view(), device_b.view(), false, bias.data(), c.view());
    return c.values();
  };
  const Matrix first = product(device_zero), other = product(device_two);
  EXPECT_TRUE(equal(product(device_zero).view(), first.view()));
  for (std::int64_t r = 0; r < 300; ++r) {
    for (std::int64_t c = 0; c < 41; ++c) {
      ASSERT_NEAR(other.view().row(r)[c], first.view().row(r)[c] + 2, 1e-5) << r << ", " << c;
    }
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
  expect_near(result.view().col_range(11, 5), c.view().col_range(11, 5), product_bound(17));
  expect_near(result.view().col_range(0, 11), c.view().col_range(0, 11), 0);
  expect_near(result.view().col_range(16, 24), c.view().col_range(16, 24), 0);
}

}  // namespace
}  // namespace heliograph
