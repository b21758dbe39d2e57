#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "heliograph/train.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"

// Contract 1 (docs/architecture.md): at 32 bits and lag 0, K ranks compute what one rank computes.

namespace heliograph {
namespace {

struct OracleCase {
  std::string name;
  ModelKind kind = ModelKind::gcn;
  bool multilabel = false;
  bool sparse = false;
  bool directed = false;
  bool inductive = false;
  bool precompute = true;
  bool residual = false;
  bool recipe = false;  ///< AdamW, warm-up, label smoothing and balanced classes.
  std::function<void(ModelOptions&)> change = {};
  bool weighted = false;
};

std::ostream& operator<<(std::ostream& out, const OracleCase& c) { return out << c.name; }

std::vector<OracleCase> cases() {
  std::vector<OracleCase> all;
  for (const ModelKind kind : {ModelKind::gcn, ModelKind::sage}) {
    const std::string m = test::name_of(kind);
    all.push_back({m, kind});
    all.push_back({m + "_multilabel", kind, true});
    all.push_back({m + "_sparse", kind, false, true});
    all.push_back({m + "_sparse_no_precompute", kind, false, true, false, false, false});
    all.push_back({m + "_directed", kind, false, false, true});
    all.push_back({m + "_inductive", kind, false, false, false, true});
    all.push_back({m + "_inductive_sparse_multilabel", kind, true, true, false, true});
    all.push_back({m + "_recipe", kind, false, false, false, false, true, false, true});
    all.push_back({m + "_no_precompute_residual", kind, false, false, false, false, false, true});
  }
  const auto add = [&](std::string name, ModelKind kind,
                       std::function<void(ModelOptions&)> change) -> OracleCase& {
    OracleCase c;
    c.name = std::move(name);
    c.kind = kind;
    c.change = std::move(change);
    return all.emplace_back(std::move(c));
  };
  const auto batch_norm = [](ModelOptions& o) { o.norm = NormLayer::batch; };
  for (const ModelKind kind :
       {ModelKind::gin, ModelKind::appnp, ModelKind::dagnn, ModelKind::jknet, ModelKind::gcnii}) {
    const std::string m = test::name_of(kind);
    add(m, kind, {});
    add(m + "_batch_norm_directed", kind, batch_norm).directed = true;
  }
  const auto attention = [](ModelOptions& o) {
    o.heads = 3;
    o.attention_dropout = 0.2F;
    // Where ranks multiply fetched features, each rounds its part of a gradient. Differences of
    // 1e-8 tip a kink of gatv2's scores within fifty epochs.
    o.precompute = o.kind != ModelKind::gatv2;
  };
  for (const ModelKind kind : {ModelKind::gat, ModelKind::gat_sep, ModelKind::gatv2}) {
    add(test::name_of(kind), kind, attention);
    add(test::name_of(kind) + "_directed", kind, attention).directed = true;
    add(test::name_of(kind) + "_sparse_inductive_averaged", kind, [&](ModelOptions& o) {
      attention(o);
      o.concat_heads = false;
      o.norm = NormLayer::batch;
    });
    all.back().sparse = all.back().inductive = true;
  }
  add("sage_batch_norm", ModelKind::sage, batch_norm);
  add("sage_batch_norm_inductive", ModelKind::sage, batch_norm).inductive = true;
  for (const ModelKind kind : {ModelKind::gcn, ModelKind::sage, ModelKind::gin}) {
    add(test::name_of(kind) + "_weighted", kind, {}).weighted = true;
  }
  OracleCase& everything = add("gcnii_weighted_directed_sparse_inductive", ModelKind::gcnii, {});
  everything.weighted = everything.directed = everything.sparse = everything.inductive = true;
  add("gin_epsilon_max", ModelKind::gin, [](ModelOptions& o) {
    o.eps_learned = true;
    o.jk = JumpingKnowledge::max;
  });
  add("gcn_linear_residual_sparse", ModelKind::gcn, [](ModelOptions& o) {
    o.residual = Residual::linear;
    o.norm = NormLayer::batch;
  }).sparse = true;
  add("sage_pre_norm", ModelKind::sage, [](ModelOptions& o) {
    o.pre_norm = o.input_linear = o.output_linear = true;
    o.residual = Residual::identity;
    o.feed_forward = 2;
  });
  return all;
}

TrainOptions options_of(const OracleCase& c, int ranks, int epochs) {
  TrainOptions o;
  o.model.kind = c.kind;
  o.model.layers = 3;
  o.model.hidden = 24;
  o.model.dropout = 0.3F;
  o.model.precompute = c.precompute;
  o.model.residual = c.residual ? Residual::identity : Residual::none;
  if (c.change) c.change(o.model);
  o.inductive = c.inductive;
  if (c.recipe) {
    o.optimizer.kind = OptimizerKind::adamw;
    o.optimizer.weight_decay = 0.1F;
    o.optimizer.lr_warmup = 5;
    o.optimizer.schedule = Schedule::cosine;
    o.loss = {0.1F, ClassWeights::balanced};
  }
  o.epochs = epochs;
  o.eval_every = 5;
  o.partition.parts = ranks;
  o.partition.partitioner = Partitioner::random;
  return o;
}

Dataset data_of(const OracleCase& c) {
  Dataset data = test::make_small_dataset(220, 31, 5, 9, c.multilabel, c.sparse, c.directed);
  return c.weighted ? test::with_weights(std::move(data)) : data;
}

class Oracle : public ::testing::TestWithParam<OracleCase> {};

TEST_P(Oracle, FiftyReproducibleEpochsAgreeForAnyNumberOfRanksAndThreads) {
  const Dataset data = data_of(GetParam());
  TrainOptions one = options_of(GetParam(), 1, 50);
  one.reproducible = true;
  const TrainResult expected = train(data, one);
  for (const int ranks : {2, 4, 7}) {
    TrainOptions many = options_of(GetParam(), ranks, 50);
    many.reproducible = true;
    many.transport.threads_per_rank = ranks == 2 ? 2 : 1;
    const TrainResult got = train(data, many);
    ASSERT_EQ(got.epochs.size(), expected.epochs.size());
    for (std::size_t e = 0; e < got.epochs.size(); ++e) {
      EXPECT_NEAR(got.epochs[e].loss / expected.epochs[e].loss, 1.0, 1e-10)
          << ranks << " ranks, epoch " << e;
    }
    EXPECT_EQ(got.predictions, expected.predictions) << ranks << " ranks";
    EXPECT_EQ(got.best_epoch, expected.best_epoch) << ranks << " ranks";
  }
}

// The loss of epoch 1 follows one forward pass, backward pass and step from the same weights.
TEST_P(Oracle, OneStepAgreesWithoutReproducible) {
  const Dataset data = data_of(GetParam());
  const TrainResult expected = train(data, options_of(GetParam(), 1, 2));
  for (const int ranks : {2, 4, 7}) {
    const TrainResult got = train(data, options_of(GetParam(), ranks, 2));
    for (std::size_t e = 0; e < 2; ++e) {
      EXPECT_NEAR(got.epochs[e].loss / expected.epochs[e].loss, 1.0, 1e-5)
          << ranks << " ranks, epoch " << e;
    }
  }
}

TEST_P(Oracle, TheSameRunHasTheSameBits) {
  const Dataset data = data_of(GetParam());
  for (const int bits : {1, 32}) {
    TrainOptions o = options_of(GetParam(), 4, 8);
    o.exchange.bits_forward = o.exchange.bits_backward =
        test::bits_for(GetParam().kind, Bits{bits});
    o.exchange.staleness = bits == 1 ? 1 : 0;
    o.exchange.stale_sites = "all";
    const TrainResult first = train(data, o);
    o.transport.threads_per_rank = 2;
    const TrainResult second = train(data, o);
    for (std::size_t e = 0; e < first.epochs.size(); ++e) {
      EXPECT_EQ(first.epochs[e].loss, second.epochs[e].loss) << bits << " bits, epoch " << e;
    }
    EXPECT_EQ(first.predictions, second.predictions);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Oracle, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace heliograph
