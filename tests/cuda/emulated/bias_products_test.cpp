#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cuda/device_arrays.hpp"
#include "emulation.hpp"
#include "heliograph/train.hpp"
#include "support/expect_error.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"

// Products that add a bias as they write: their number of calls, and what happens where cublasLt
// has no algorithm. These tests need the emulated device.

namespace heliograph {
namespace {

using cuda_emulation::calls;

/// The number of calls of each kind so far.
struct ProductCalls {
  std::int64_t plain = calls("cublasSgemm");
  std::int64_t with_bias = calls("cublasLtMatmul");
  std::int64_t chosen = calls("cublasLtMatmulAlgoGetHeuristic");
  std::int64_t described = calls("cublasLtMatmulDescCreate") + calls("cublasLtMatrixLayoutCreate") +
                           calls("cublasLtMatmulPreferenceCreate");
  std::int64_t launched = calls("cudaLaunchKernel");

  friend ProductCalls operator-(const ProductCalls& a, const ProductCalls& b) {
    return {a.plain - b.plain, a.with_bias - b.with_bias, a.chosen - b.chosen,
            a.described - b.described, a.launched - b.launched};
  }
};

class BiasProducts : public TwinTest {
 protected:
  void TearDown() override { cuda_emulation::repair(); }

  /// The calls of a product with bias of this shape. The bias begins `begin` values into its
  /// memory.
  ProductCalls multiply(std::int64_t rows, std::int64_t in, std::int64_t out,
                        bool accumulate = false, std::int64_t begin = 0) {
    const Matrix a = normal_matrix(rows, in), b = normal_matrix(in, out),
                 c = normal_matrix(rows, out);
    const std::vector<float> bias = normal_values(begin + out);
    const DeviceMatrix device_a = on_device(a), device_b = on_device(b), device_c = on_device(c);
    const DeviceArray<float> device_bias = on_device(bias);
    const ProductCalls before;
    cuda->gemm_bias(device_a.view(), device_b.view(), accumulate, device_bias.data() + begin,
                    device_c.view());
    const ProductCalls after;
    cpu->gemm_bias(a.view(), b.view(), accumulate, bias.data() + begin, c.view());
    expect_near(device_c.values().view(), c.view(), 1e-4);
    return after - before;
  }
};

TEST_F(BiasProducts, TakeOneCallAndNoPass) {
  const ProductCalls first = multiply(33, 17, 5);
  EXPECT_EQ(first.with_bias, 1);
  EXPECT_EQ(first.chosen, 1);
  EXPECT_GT(first.described, 0);
  EXPECT_EQ(first.plain, 0);
  EXPECT_EQ(first.launched, 0);
  const ProductCalls second = multiply(33, 17, 5);
  EXPECT_EQ(second.with_bias, 1);
  EXPECT_EQ(second.chosen, 0);
  EXPECT_EQ(second.described, 0);
}

TEST_F(BiasProducts, EachShapeIsDecidedOnce) {
  EXPECT_EQ(multiply(33, 17, 5).chosen, 1);
  EXPECT_EQ(multiply(34, 17, 5).chosen, 1);
  EXPECT_EQ(multiply(33, 17, 5, true).chosen, 1);
  EXPECT_EQ(multiply(34, 17, 5).chosen, 0);
  EXPECT_EQ(multiply(33, 17, 5, true).chosen, 0);
  EXPECT_EQ(multiply(0, 17, 5).with_bias, 0);
}

TEST_F(BiasProducts, WithoutAnAlgorithmTheBiasTakesAPassOfItsOwn) {
  cuda_emulation::fail_call("cublasLtMatmulAlgoGetHeuristic", 1, cudaErrorNotSupported);
  for (const bool first : {true, false}) {
    const ProductCalls made = multiply(33, 17, 5, true);
    EXPECT_EQ(made.with_bias, 0);
    EXPECT_EQ(made.plain, 1);
    EXPECT_EQ(made.launched, 1);
    EXPECT_EQ(made.chosen, first ? 1 : 0);
  }
  EXPECT_EQ(multiply(33, 17, 6).with_bias, 1);
}

TEST_F(BiasProducts, ABiasThatIsNotAlignedTakesAPassOfItsOwn) {
  for (const std::int64_t begin : {1, 2, 3, 5}) {
    SCOPED_TRACE(begin);
    const ProductCalls made = multiply(33, 17, 5, begin % 2 == 0, begin);
    EXPECT_EQ(made.with_bias, 0);
    EXPECT_EQ(made.chosen, 0);
    EXPECT_EQ(made.plain, 1);
    EXPECT_EQ(made.launched, 1);
  }
  EXPECT_EQ(multiply(33, 17, 5, false, 4).with_bias, 1);
}

TEST_F(BiasProducts, ASumOfNothingIsTheBias) {
  const ProductCalls made = multiply(33, 0, 5);
  EXPECT_EQ(made.with_bias, 0);
  EXPECT_EQ(made.plain, 1);
}

TEST_F(BiasProducts, FailuresAreNamed) {
  const auto message = [&](const char* call) {
    cuda_emulation::fail_call(call, 1, cudaErrorUnknown);
    return test::expect_error(ErrorCode::resource, "", [&] { multiply(7, 7, 7); });
  };
  EXPECT_EQ(message("cublasLtMatmulDescCreate"),
            "CUDA device: setting up a matrix product: execution failed");
  EXPECT_EQ(message("cublasLtMatrixLayoutCreate"),
            "CUDA device: setting up a matrix product: execution failed");
  EXPECT_EQ(message("cublasLtMatmulPreferenceCreate"),
            "CUDA device: setting up a matrix product: execution failed");
  EXPECT_EQ(message("cublasLtMatmulAlgoGetHeuristic"),
            "CUDA device: choosing a matrix product: execution failed");
  EXPECT_EQ(message("cublasLtMatmul"), "CUDA device: matrix product with bias: execution failed");
  EXPECT_EQ(multiply(7, 7, 7).with_bias, 1);
}

struct Setting {
  ModelKind kind;
  int layers;
  bool transform_first;
  bool saves;  ///< Whether the last layer has a product that can take the bias with it.
};

TEST_F(BiasProducts, AnEpochSavesOnePassARank) {
  const Dataset data = test::make_small_dataset(80, 12, 4, 5);
  for (const Setting s :
       {Setting{ModelKind::sage, 3, true, true}, Setting{ModelKind::sage, 3, false, true},
        Setting{ModelKind::sage, 1, true, true}, Setting{ModelKind::gcn, 3, true, false},
        Setting{ModelKind::gcn, 3, false, true}, Setting{ModelKind::gcn, 1, true, true}}) {
    SCOPED_TRACE(::testing::Message() << (s.kind == ModelKind::gcn ? "gcn, " : "sage, ") << s.layers
                                      << " layers, transform first " << s.transform_first);
    TrainOptions o = test::small_options(2, 3);
    o.model.kind = s.kind;
    o.model.layers = s.layers;
    o.model.transform_first = s.transform_first;
    o.transport.device = DeviceKind::cuda;
    o.transport.kind = TransportKind::threads;
    o.transport.cuda_graphs = CudaGraphs::off;  // Each launch counts.
    o.eval_every = 100;
    const ProductCalls before;
    const TrainResult fused = train(data, o);
    const ProductCalls between;
    // More failures than there will be calls; the rest is forgotten.
    for (int n = 1; n <= 20; ++n) {
      cuda_emulation::fail_call("cublasLtMatmulAlgoGetHeuristic", n, cudaErrorNotSupported);
    }
    const TrainResult apart = train(data, o);
    cuda_emulation::repair();
    const ProductCalls with = between - before, without = ProductCalls() - between;
    // Two ranks, three epochs, the evaluation after the last one, and that of the best weights.
    const std::int64_t saved = s.saves ? 2 * (3 + 2) : 0;
    EXPECT_EQ(with.with_bias, saved);
    EXPECT_EQ(without.with_bias, 0);
    EXPECT_EQ(without.plain - with.plain, saved);
    EXPECT_EQ(without.launched - with.launched, saved);
    ASSERT_EQ(fused.epochs.size(), 3U);
    EXPECT_NEAR(fused.epochs[0].loss / apart.epochs[0].loss, 1, 1e-6);
  }
}

}  // namespace
}  // namespace heliograph
