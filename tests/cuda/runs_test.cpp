#include "support/runs.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "core/kernels.hpp"
#include "heliograph/checkpoint.hpp"
#include "heliograph/error.hpp"
#include "heliograph/train.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/graphs.hpp"

// Whole runs on a CUDA device.

namespace heliograph {
namespace {

constexpr int kRunEpochs = 5;

TrainOptions on_device(int ranks) {
  TrainOptions o = test::small_options(ranks, kRunEpochs);
  o.transport.device = DeviceKind::cuda;
  o.transport.kind = TransportKind::threads;
  o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
  o.exchange.staleness = 1;
  o.eval_every = 2;
  return o;
}

class CudaRun : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_devices() == 0) GTEST_SKIP() << "no CUDA device";
  }
  const Dataset data = test::make_small_dataset(80, 12, 4, 5);
};

TEST_F(CudaRun, SaysTwiceTheSame) {
  const TrainResult one = train(data, on_device(3)), two = train(data, on_device(3));
  ASSERT_EQ(one.epochs.size(), static_cast<std::size_t>(kRunEpochs));
  for (std::size_t e = 0; e < one.epochs.size(); ++e) {
    EXPECT_EQ(one.epochs[e].loss, two.epochs[e].loss) << e;
    EXPECT_TRUE(std::isfinite(one.epochs[e].loss));
  }
  EXPECT_EQ(one.predictions, two.predictions);
  EXPECT_EQ(one.predictions.size(), 80U);
}

TEST_F(CudaRun, CountsTheBytesOfTheCpusRunAndWhatItsDeviceHolds) {
  for (const Bits gradient_bits : {Bits::fp32, Bits::eight}) {
    TrainOptions o = on_device(3);
    o.exchange.gradient_bits = gradient_bits;
    const TrainResult device = train(data, o);
    o.transport.device = DeviceKind::cpu;
    const TrainResult host = train(data, o);
    EXPECT_NEAR(device.epochs[0].loss, host.epochs[0].loss, 1e-5 * host.epochs[0].loss);
    EXPECT_NEAR(device.epochs[1].loss, host.epochs[1].loss, 0.05 * host.epochs[1].loss);
    EXPECT_EQ(device.bytes_per_epoch.total(), host.bytes_per_epoch.total());
    EXPECT_EQ(device.evaluation_bytes, host.evaluation_bytes);
    EXPECT_EQ(device.memory.activations, host.memory.activations);
    EXPECT_EQ(device.memory.halo, host.memory.halo);
    EXPECT_EQ(device.memory.weights, host.memory.weights);
    EXPECT_GT(device.memory.features, 0);
  }
}

TEST_F(CudaRun, GoesOnWithTheBitsOfARunThatWasNeverStopped) {
  const test::TemporaryDirectory folder;
  TrainOptions o = on_device(2);
  o.checkpoint.folder = folder / "whole";
  o.checkpoint.every = 1000;
  const TrainResult whole = train(data, o);
  TrainOptions part = o;
  part.checkpoint.folder = folder / "part";
  part.epochs = 3;
  train(data, part);
  part.epochs = kRunEpochs;
  part.checkpoint.resume = newest_checkpoint(folder / "part");
  const TrainResult rest = train(data, part);
  ASSERT_EQ(rest.epochs.size(), whole.epochs.size());
  for (std::size_t e = 0; e < whole.epochs.size(); ++e) {
    EXPECT_EQ(rest.epochs[e].loss, whole.epochs[e].loss) << e;
  }
  EXPECT_EQ(rest.predictions, whole.predictions);
  // And its weights score on a device as they did.
  const EvaluationResult scores =
      evaluate(data, o, Model::load(newest_checkpoint(folder / "whole")));
  ASSERT_TRUE(whole.epochs.back().test_metric.has_value());
  EXPECT_EQ(scores.test_metric, *whole.epochs.back().test_metric);
}

TEST_F(CudaRun, NamesTheNodeThatBreaksIt) {
  Dataset broken = test::make_small_dataset(80, 12, 4, 5);
  TrainOptions o = on_device(2);
  o.optimizer.lr = 1e30F;
  o.model.norm = NormLayer::none;
  test::expect_error(ErrorCode::numeric, {"epoch ", "node "}, [&] { train(broken, o); });
}

TEST_F(CudaRun, RefusesFp64Sums) {
  TrainOptions o = on_device(2);
  o.reproducible = true;
  test::expect_error(ErrorCode::usage, "reproducible", [&] { train(data, o); });
}

}  // namespace
}  // namespace heliograph
