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

/// The copies of an epoch of two ranks between host and devices.
struct EpochCopies {
  cuda_emulation::Copies to_devices, to_host;
};

EpochCopies copies_of_an_epoch(Bits gradient_bits, int hidden) {
  TrainOptions o = test::small_options(2, 4);
  o.model.hidden = hidden;
  o.exchange.gradient_bits = gradient_bits;
  o.transport.kind = TransportKind::nccl;
  o.transport.device = DeviceKind::cuda;
  o.eval_every = 100;
  std::vector<EpochCopies> seen;
  TrainCallbacks callbacks;
  callbacks.on_epoch = [&](const EpochReport&) {
    seen.push_back({cuda_emulation::copies_to_devices(), cuda_emulation::copies_to_host()});
    return EpochAction::proceed;
  };
  train(test::make_small_dataset(80, 12, 4, 5), o, callbacks);
  const auto between = [](cuda_emulation::Copies a, cuda_emulation::Copies b) {
    return cuda_emulation::Copies{b.calls - a.calls, b.bytes - a.bytes};
  };
  return {between(seen[1].to_devices, seen[2].to_devices),
          between(seen[1].to_host, seen[2].to_host)};
}

// Devices sum gradients and move weights, so an epoch downloads only its figures: the loss and a
// sum of squares.
TEST_F(CudaSteadyState, EpochsDownloadNoWeights) {
  const EpochCopies narrow = copies_of_an_epoch(Bits::fp32, 16);
  const EpochCopies wide = copies_of_an_epoch(Bits::fp32, 400);
  EXPECT_GT(narrow.to_host.bytes, 0);
  EXPECT_LT(narrow.to_host.bytes, 100);
  EXPECT_EQ(wide.to_host.bytes, narrow.to_host.bytes);
  EXPECT_EQ(wide.to_devices.bytes, narrow.to_devices.bytes);
}

// Gradients that the host sums lie in page-locked memory, out of which one copy reads them.
TEST_F(CudaSteadyState, GradientsOfTheHostAreUploadedInOneCopy) {
  constexpr int kHidden = 1 << 14;  // Its gradients are larger than a stage of uploads.
  const EpochCopies narrow = copies_of_an_epoch(Bits::eight, 16);
  const EpochCopies wide = copies_of_an_epoch(Bits::eight, kHidden);
  EXPECT_GT(wide.to_devices.bytes - narrow.to_devices.bytes, 2 * 12 * kHidden * 4);
  EXPECT_EQ(wide.to_devices.calls, narrow.to_devices.calls);
  EXPECT_EQ(wide.to_host.calls, narrow.to_host.calls);
}

}  // namespace
}  // namespace heliograph
