#include <gtest/gtest.h>

#include "heliograph/train.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"

// The order in which ranks number their nodes changes speed, and results by rounding only.

namespace heliograph {
namespace {

struct OrderCase {
  const char* name;
  ModelKind kind;
  bool directed;
  bool inductive;
  bool sparse;
};

class NodeOrders : public ::testing::TestWithParam<OrderCase> {
 protected:
  static Dataset data() {
    return test::make_small_dataset(260, 19, 4, 21, false, GetParam().sparse, GetParam().directed);
  }
  static TrainOptions options(int ranks, int epochs, NodeOrder order) {
    TrainOptions o = test::small_options(ranks, epochs);
    o.model.kind = GetParam().kind;
    o.inductive = GetParam().inductive;
    o.partition.partitioner = Partitioner::random;
    o.node_order = order;
    return o;
  }
};

TEST_P(NodeOrders, ReproducibleRunsPredictTheSame) {
  const Dataset dataset = data();
  for (const int ranks : {1, 3}) {
    TrainOptions o = options(ranks, 20, NodeOrder::id);
    o.reproducible = true;
    const TrainResult expected = train(dataset, o);
    for (const NodeOrder order : {NodeOrder::random, NodeOrder::cluster}) {
      o.node_order = order;
      const TrainResult got = train(dataset, o);
      for (std::size_t e = 0; e < expected.epochs.size(); ++e) {
        EXPECT_NEAR(got.epochs[e].loss / expected.epochs[e].loss, 1.0, 1e-6) << "epoch " << e;
      }
      EXPECT_EQ(got.predictions, expected.predictions);
      EXPECT_EQ(got.test_metric, expected.test_metric);
    }
  }
}

// Rounding noise depends on the user's node numbers, so the same codes travel in any order.
TEST_P(NodeOrders, OneBitStepsAgree) {
  const Dataset dataset = data();
  TrainOptions o = options(3, 2, NodeOrder::id);
  o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
  o.reproducible = true;
  const TrainResult expected = train(dataset, o);
  for (const NodeOrder order : {NodeOrder::random, NodeOrder::cluster}) {
    o.node_order = order;
    const TrainResult got = train(dataset, o);
    EXPECT_NEAR(got.epochs[1].loss / expected.epochs[1].loss, 1.0, 1e-5);
    EXPECT_EQ(got.bytes_per_epoch.halo_forward, expected.bytes_per_epoch.halo_forward);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, NodeOrders,
    ::testing::Values(OrderCase{"gcn", ModelKind::gcn, false, false, false},
                      OrderCase{"sage_directed", ModelKind::sage, true, false, false},
                      OrderCase{"sage_inductive", ModelKind::sage, false, true, false},
                      OrderCase{"gcn_directed_inductive_sparse", ModelKind::gcn, true, true, true}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace heliograph
