#include <gtest/gtest.h>

#include "heliograph/checkpoint.hpp"
#include "heliograph/train.hpp"
#include "support/files.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"

// --tf32 applies to every product of training and to none of evaluation. These tests need the
// emulated device, because a real one may multiply such small matrices without tensor cores.

namespace heliograph {
namespace {

TrainOptions on_device(bool tf32) {
  TrainOptions o = test::small_options(2, 4);
  o.transport.device = DeviceKind::cuda;
  o.transport.kind = TransportKind::threads;
  o.tf32 = tf32;
  return o;
}

TEST(Tf32Runs, TrainingRoundsFactors) {
  const Dataset data = test::make_small_dataset(80, 12, 4, 5);
  const TrainResult fp32 = train(data, on_device(false)), one = train(data, on_device(true)),
                    two = train(data, on_device(true));
  ASSERT_EQ(one.epochs.size(), 4U);
  for (std::size_t e = 0; e < 4; ++e) {
    EXPECT_NE(one.epochs[e].loss, fp32.epochs[e].loss) << e;
    EXPECT_EQ(one.epochs[e].loss, two.epochs[e].loss) << e;
  }
  // From the same weights; a value is wrong by a share of 2^-10 a layer, the mean of many by less.
  EXPECT_NEAR(one.epochs[0].loss / fp32.epochs[0].loss, 1, 1e-3);
}

TEST(Tf32Runs, EvaluationDoesNot) {
  const Dataset data = test::make_small_dataset(80, 12, 2, 5);
  const test::TemporaryDirectory folder;
  TrainOptions o = on_device(true);
  o.metric = Metric::auc;  // This metric keeps the scores.
  o.checkpoint.folder = folder / "run";
  o.checkpoint.every = 4;
  train(data, o);
  const Model model = Model::load(newest_checkpoint(folder / "run"));
  const EvaluationResult rounding = evaluate(data, o, model);
  o.tf32 = false;
  const EvaluationResult exact = evaluate(data, o, model);
  ASSERT_FALSE(exact.scores.empty());
  EXPECT_EQ(rounding.scores, exact.scores);
}

}  // namespace
}  // namespace heliograph
