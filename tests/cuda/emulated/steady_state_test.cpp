#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "emulation.hpp"
#include "heliograph/train.hpp"
#include "nccl_run.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"

namespace heliograph {
namespace {

/// Calls so far that allocate, on a device, page-locked or as descriptions of products.
std::int64_t allocations() {
  std::int64_t sum = 0;
  for (const char* call : {"cudaMallocAsync", "cudaMallocHost", "cublasLtMatmulDescCreate",
                           "cublasLtMatrixLayoutCreate", "cublasLtMatmulPreferenceCreate"}) {
    sum += cuda_emulation::calls(call);
  }
  return sum;
}

class CudaSteadyState : public test::NcclTest {};

// The training step allocates nothing after the first epochs, and never waits for a whole device.
TEST_F(CudaSteadyState, EpochsAllocateNothingAndWaitForStreamsOnly) {
  const Dataset data = test::make_small_dataset(80, 12, 4, 5);
  for (const TransportKind kind : {TransportKind::threads, TransportKind::nccl}) {
    for (const auto& [staleness, gradient_bits] :
         {std::pair(0, Bits::fp32), {2, Bits::fp32}, {0, Bits::eight}, {2, Bits::four}}) {
      TrainOptions o = test::small_options(3, 8);
      o.model.layers = 3;
      o.model.transform_first = staleness == 0;
      o.transport.kind = kind;
      o.transport.device = DeviceKind::cuda;
      o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
      o.exchange.staleness = staleness;
      o.exchange.gradient_bits = gradient_bits;
      o.eval_every = 100;
      std::vector<std::int64_t> seen;
      TrainCallbacks callbacks;
      callbacks.on_epoch = [&](const EpochReport&) {
        seen.push_back(allocations());
        return EpochAction::proceed;
      };
      const std::int64_t before = allocations();
      train(data, o, callbacks);
      ASSERT_EQ(seen.size(), 8U);
      EXPECT_GT(seen.front(), before);
      // The last epoch is followed by an evaluation before it is told.
      for (std::size_t e = static_cast<std::size_t>(staleness) + 2; e + 1 < seen.size(); ++e) {
        EXPECT_EQ(seen[e], seen[static_cast<std::size_t>(staleness) + 1])
            << "S = " << staleness << ", " << bit_count(gradient_bits) << " bits, epoch " << e;
      }
    }
  }
  EXPECT_EQ(cuda_emulation::calls("cudaDeviceSynchronize"), 0);
}

/// How often an epoch of a model with two hidden layers waits for its stream.
std::int64_t waits_of_an_epoch(NormLayer norm) {
  TrainOptions o = test::small_options(1, 4);
  o.model.layers = 3;
  o.model.norm = norm;
  o.transport.device = DeviceKind::cuda;
  o.transport.cuda_graphs = CudaGraphs::off;
  o.eval_every = 100;
  std::vector<std::int64_t> seen;
  TrainCallbacks callbacks;
  callbacks.on_epoch = [&](const EpochReport&) {
    seen.push_back(cuda_emulation::calls("cudaStreamSynchronize"));
    return EpochAction::proceed;
  };
  train(test::make_small_dataset(80, 12, 4, 5), o, callbacks);
  return seen[2] - seen[1];
}

// BatchNorm reads moments, the running statistics and the gradients that it sums over ranks.
TEST_F(CudaSteadyState, BatchNormWaitsThreeTimesALayer) {
  EXPECT_EQ(waits_of_an_epoch(NormLayer::batch) - waits_of_an_epoch(NormLayer::layer), 2 * 3);
}

}  // namespace
}  // namespace heliograph
