#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "core/cpu/aggregate.hpp"
#include "layers/network.hpp"
#include "support/aggregate_reference.hpp"
#include "support/distance.hpp"
#include "support/graphs.hpp"
#include "support/passes.hpp"
#include "support/runs.hpp"

namespace heliograph {
namespace {

TEST(Dropout, MasksAreDrawnAnewInEveryEpoch) {
  const Dataset data = test::make_small_dataset(60, 17, 5, 7);
  for (const bool precompute : {false, true}) {
    ModelOptions options;
    options.kind = ModelKind::gcn;
    options.layers = 1;  // the input's mask is the only one
    options.hidden = 9;
    options.precompute = precompute;
    test::SingleRank rank(data, options);
    const double third = rank.loss();
    EXPECT_EQ(rank.loss(), third);
    rank.epoch = 4;
    EXPECT_NE(rank.loss(), third);
  }
}

TEST(Dropout, OfZeroDoesNotDependOnTheEpoch) {
  const Dataset data = test::make_small_dataset(60, 17, 5, 7);
  ModelOptions options;
  options.dropout = 0;
  test::SingleRank rank(data, options);
  const double third = rank.loss();
  rank.epoch = 4;
  EXPECT_EQ(rank.loss(), third);
}

/// A data set with dense features on one rank.
struct OneRank {
  OneRank(Dataset whole, int threads)
      : data(std::move(whole)), kernels(make_cpu_kernels(threads, false)) {
    for (std::int64_t r = 0; r < data.features.rows; ++r) {
      std::copy_n(data.features.dense.data() + r * data.features.cols, data.features.cols,
                  x.view().row(r));
    }
  }

  const Dataset data;
  const Partition partition{1, std::vector<std::int32_t>(data.graph.nodes, 0)};
  const NodeIndex index{data.graph, partition};
  const Graph transposed = transpose(data.graph);
  const Shard shard = build_shard(index, 0, data.graph.directed ? &transposed : nullptr);
  const std::unique_ptr<Kernels> kernels;
  const Matrix x{data.features.rows, data.features.cols, MemoryUse::features, nullptr};
};

TEST(Model, InferenceIsTheForwardPassWithoutDropout) {
  const OneRank rank(test::make_small_dataset(60, 20, 3, 7), 1);
  const auto& shard = rank.shard;
  const auto& kernels = rank.kernels;
  const auto& x = rank.x;
  for (const ModelKind kind : {ModelKind::gcn, ModelKind::sage}) {
    for (const bool residual : {false, true}) {
      for (const bool transform_first : {false, true}) {
        for (const NormLayer norm : {NormLayer::none, NormLayer::layer}) {
          for (const int layers : {1, 2, 4}) {
            ModelOptions options;
            options.kind = kind;
            options.layers = layers;
            options.hidden = 20;
            options.dropout = 0;
            options.norm = norm;
            options.residual = residual ? Residual::identity : Residual::none;
            options.precompute = false;
            options.transform_first = transform_first;
            const PlacedShard placed(shard, kernels->device(), MemoryUse::graph, nullptr);
            const GraphOperator op(placed, *kernels, propagation_of(options), MemoryUse::graph,
                                   nullptr);
            const ModelInput input{FeatureView::of(x.view()), std::nullopt};
            Network model(options, input, 3, 5, {60, 60}, *kernels, nullptr);
            test::NoHalo halo;
            PhaseClock clock;
            const PassContext pass{*kernels, halo, clock, {}, 11};
            const ConstMatrixView trained = model.forward(pass, op, input);
            const ConstMatrixView inferred = model.infer(pass, op, input);
            for (std::int64_t r = 0; r < 60; ++r) {
              for (int c = 0; c < 3; ++c) ASSERT_EQ(trained.row(r)[c], inferred.row(r)[c]);
            }
          }
        }
      }
    }
  }
}

TEST(Bf16Storage, AppliesBothDirectionsToRoundedRows) {
  const OneRank rank(test::make_small_dataset(100, 21, 3, 7, false, false, true), 2);
  const auto& shard = rank.shard;
  const auto& kernels = rank.kernels;
  const auto& x = rank.x;
  const BasicMatrix<std::uint16_t> scratch(100, 21, MemoryUse::workspace, nullptr);
  test::NoHalo halo;
  PhaseClock clock;
  const PassContext pass{*kernels, halo, clock, {}, 11};
  for (const ModelKind kind : {ModelKind::gcn, ModelKind::sage}) {
    const bool gcn = kind == ModelKind::gcn;
    std::vector<float> scale;
    for (const auto degree : shard.in_degree) {
      const auto n = static_cast<double>(degree);
      scale.push_back(static_cast<float>(gcn ? 1 / std::sqrt(n + 1) : n > 0 ? 1 / n : 0));
    }
    const PlacedShard placed(shard, kernels->device(), MemoryUse::graph, nullptr);
    ModelOptions options;
    options.kind = kind;
    const GraphOperator op(placed, *kernels, propagation_of(options), MemoryUse::graph, nullptr);
    for (const Direction direction : {Direction::forward, Direction::backward}) {
      const bool forward = direction == Direction::forward;
      const Matrix out(100, 21, MemoryUse::workspace, nullptr);
      const Matrix expected(100, 21, MemoryUse::workspace, nullptr);
      Site site;
      site.direction = direction;
      op.begin_sum(pass, site, x.view(), out.view(), {{}, scratch.view()}, [] {});
      op.add_halo(pass, site, out.view(), {0, 100});
      cpu::aggregate_inner_bf16_reference(shard.adjacency(direction).inner.view(), x.view(),
                                          gcn || !forward ? scale.data() : nullptr, gcn,
                                          gcn || forward ? scale.data() : nullptr, expected.view());
      for (std::int64_t r = 0; r < 100; ++r) {
        for (int c = 0; c < 21; ++c) ASSERT_EQ(out.view().row(r)[c], expected.view().row(r)[c]);
      }
    }
  }
}

TEST(Bf16Storage, LeavesTheGradientsOfAModelNearby) {
  for (const ModelKind kind : {ModelKind::gcn, ModelKind::sage}) {
    for (const bool transform_first : {false, true}) {
      const Dataset data = test::make_small_dataset(300, 50, 5, 7, false, false, true);
      ModelOptions options;
      options.kind = kind;
      options.layers = 3;
      options.hidden = 40;
      options.transform_first = transform_first;
      test::SingleRank exact(data, options, false);
      options.aggregate_storage = RowStorage::bf16;
      test::SingleRank stored(data, options, false);
      const double loss = exact.loss_and_gradients();
      EXPECT_NEAR(stored.loss_and_gradients() / loss, 1.0, 1e-2);
      // Values are off by 2^-8 of themselves at most. About as small a share of them changes sides
      // in a ReLU, which moves the gradient by the root of that share.
      const double distance =
          test::relative_distance(stored.model().parameters().flat_gradients_f32(),
                                  exact.model().parameters().flat_gradients_f32());
      EXPECT_GT(distance, 1e-5);
      EXPECT_LT(distance, 1e-1);
    }
  }
}

TEST(Bf16Storage, LeavesInferenceExact) {
  const OneRank rank(test::make_small_dataset(60, 20, 3, 7), 1);
  const auto& shard = rank.shard;
  const auto& kernels = rank.kernels;
  const auto& x = rank.x;
  const ModelInput input{FeatureView::of(x.view()), std::nullopt};
  const PlacedShard placed(shard, kernels->device(), MemoryUse::graph, nullptr);
  test::NoHalo halo;
  PhaseClock clock;
  const PassContext pass{*kernels, halo, clock, {}, 11};
  ModelOptions options;
  options.kind = ModelKind::gcn;
  options.dropout = 0;
  options.precompute = false;
  const GraphOperator op(placed, *kernels, propagation_of(options), MemoryUse::graph, nullptr);
  Network exact(options, input, 3, 5, {60, 60}, *kernels, nullptr);
  options.aggregate_storage = RowStorage::bf16;
  Network stored(options, input, 3, 5, {60, 60}, *kernels, nullptr);
  const ConstMatrixView expected = exact.infer(pass, op, input);
  const auto differs = [&](ConstMatrixView logits) {
    bool any = false;
    for (std::int64_t r = 0; r < 60; ++r) {
      any = any || !std::equal(logits.row(r), logits.row(r) + 3, expected.row(r));
    }
    return any;
  };
  EXPECT_TRUE(differs(stored.forward(pass, op, input)));
  EXPECT_FALSE(differs(stored.infer(pass, op, input)));
}

// These models scale no rows, so an operator's memory is that of its blocks.
TEST(GraphOperator, MakesNoGatherBlocksForAttention) {
  const Graph graph = test::random_graph(3200, 0.01, 4);
  const Shard shard =
      build_shard(NodeIndex(graph, test::round_robin_partition(3200, 1)), 0, nullptr);
  const auto kernels = make_cpu_kernels(1, false);
  const PlacedShard placed(shard, kernels->device(), MemoryUse::graph, nullptr);
  const auto bytes = [&](ModelKind kind) {
    ModelOptions options;
    options.kind = kind;
    MemoryAccount account;
    const GraphOperator op(placed, *kernels, propagation_of(options), MemoryUse::graph, &account);
    return account.live(MemoryUse::graph);
  };
  EXPECT_GT(bytes(ModelKind::gin), 0);
  EXPECT_EQ(bytes(ModelKind::gat), 0);
  EXPECT_EQ(bytes(ModelKind::gat_sep), 0);
  EXPECT_EQ(bytes(ModelKind::gatv2), 0);
}

/// Checks that rows which a site declares as non-negative are so, and notes whether any site did.
class PromiseHalo final : public Halo {
 public:
  void open(const Site& site, const OfferedRows& rows) override {
    if (site.direction == Direction::forward && site.layer > 0) {
      promised = promised || site.nonnegative;
    }
    rows_ = rows.values;
  }
  void offer(const Site& site, RowRange range) override {
    for (std::int64_t r = range.begin; site.nonnegative && r < range.end; ++r) {
      for (std::int64_t c = 0; c < rows_.cols; ++c) EXPECT_GE(rows_.row(r)[c], 0.0F);
    }
  }
  void finish(const Site&, FunctionRef<void(const PackedRows&)>) override {}

  bool promised = false;

 private:
  ConstMatrixView rows_;
};

// The bits do not depend on the number of blocks in which rows are made.
TEST(Model, BlocksOfRowsChangeNoBit) {
  for (const ModelKind kind : test::all_models()) {
    for (const bool transform_first : {false, true}) {
      for (const bool sparse : {false, true}) {
        const Dataset data = test::make_small_dataset(70, 20, 3, 7, false, sparse);
        ModelOptions options;
        options.kind = kind;
        options.layers = 3;
        options.hidden = 20;
        options.residual = Residual::identity;
        options.precompute = sparse && !transform_first;
        options.transform_first = transform_first;
        test::SingleRank whole(data, options, false);
        const double loss = whole.loss_and_gradients();
        const auto expected = whole.model().parameters().flat_gradients_f32();
        for (const int blocks : {2, 7, 70, 100}) {
          test::SingleRank cut(data, options, false, blocks);
          EXPECT_EQ(cut.loss_and_gradients(), loss) << blocks;
          const auto got = cut.model().parameters().flat_gradients_f32();
          EXPECT_TRUE(std::equal(got.begin(), got.end(), expected.begin())) << blocks;
        }
      }
    }
  }
}

// After a residual of features that may be negative, rows may be negative in every layer.
TEST(Model, PromisesRowsThatAreNeverNegativeOnlyWhereThatHolds) {
  for (const bool residual : {false, true}) {
    for (const std::int64_t cols : {12, 20}) {
      const Dataset data = test::make_small_dataset(60, static_cast<int>(cols), 3, 7);
      ModelOptions options;
      options.layers = 3;
      options.hidden = 20;
      options.precompute = false;
      options.transform_first = false;
      options.residual = residual ? Residual::identity : Residual::none;
      const Partition partition{1, std::vector<std::int32_t>(60, 0)};
      const NodeIndex index(data.graph, partition);
      const Shard shard = build_shard(index, 0, nullptr);
      const auto kernels = make_cpu_kernels(1, false);
      const PlacedShard placed(shard, kernels->device(), MemoryUse::graph, nullptr);
      const GraphOperator op(placed, *kernels, propagation_of(options), MemoryUse::graph, nullptr);
      Matrix x(60, cols, MemoryUse::features, nullptr);
      for (std::int64_t r = 0; r < 60; ++r) {
        std::copy_n(data.features.dense.data() + r * cols, cols, x.view().row(r));
      }
      const ModelInput input{FeatureView::of(x.view()), std::nullopt};
      Network model(options, input, 3, 5, {60, 60}, *kernels, nullptr);
      PromiseHalo halo;
      PhaseClock clock;
      const PassContext pass{*kernels, halo, clock, {}, 11};
      model.forward(pass, op, input);
      EXPECT_EQ(halo.promised, !(residual && cols == 20));
    }
  }
}

/// A halo whose rows are always from the epoch before, and which notes the use of kept rows.
class LateHalo final : public Halo {
 public:
  void open(const Site&, const OfferedRows&) override {}
  void offer(const Site&, RowRange) override {}
  void finish(const Site&, FunctionRef<void(const PackedRows&)>) override {}
  std::int64_t source_epoch(const Site&, std::int64_t epoch) const override { return epoch - 1; }
  KeptRows kept(const Site& site, std::int64_t epoch) override {
    EXPECT_EQ(site.direction, Direction::forward);
    epochs.insert(epoch);
    return {};
  }

  std::set<std::int64_t> epochs;
};

// Gradients that are one epoch late were made from rows that were one epoch late.
TEST(Model, AttentionReadsTheRowsThatItsGradientsWereMadeFrom) {
  const Dataset data = test::make_small_dataset(60, 12, 3, 7);
  const auto kernels = make_cpu_kernels(1, false);
  const Shard shard =
      build_shard(NodeIndex(data.graph, Partition{1, std::vector<int>(60, 0)}), 0, nullptr);
  const PlacedShard placed(shard, kernels->device(), MemoryUse::graph, nullptr);
  const GraphOperator op(placed, *kernels, {}, MemoryUse::graph, nullptr);
  const ConstMatrixView x{data.features.dense.data(), 60, 12, 12};
  const ModelInput input{FeatureView::of(x), FeatureView::of(x)};
  for (const ModelKind kind : {ModelKind::gat, ModelKind::gatv2}) {
    ModelOptions options;
    options.kind = kind;
    options.layers = 1;
    options.precompute = false;
    Network model(options, input, 3, 5, {60, 60}, *kernels, nullptr);
    LateHalo halo;
    PhaseClock clock;
    const PassContext pass{*kernels, halo, clock, {7}, 11};
    model.forward(pass, op, input);
    model.logit_gradient();
    model.backward(
        pass, op, [](std::int64_t, std::int64_t) {}, [] {});
    EXPECT_EQ(halo.epochs, std::set<std::int64_t>{5});
  }
}

TEST(Parameters, EveryWeightMatrixIsDrawnWithinItsBoundAndOthersAreZero) {
  Parameters parameters;
  const int narrow = parameters.declare("narrow", 1, 50, ParameterKind::weight);
  const int wide = parameters.declare("wide", 40, 60, ParameterKind::weight);
  const int bias = parameters.declare("bias", 1, 60, ParameterKind::bias);
  parameters.allocate(false, nullptr);
  parameters.initialise(3, *make_cpu_kernels(1, false));
  for (const int i : {narrow, wide}) {
    const MatrixView w = parameters.value(i);
    const double bound = std::sqrt(6.0 / static_cast<double>(w.rows + w.cols));
    double squares = 0;
    for (std::int64_t j = 0; j < w.rows * w.cols; ++j) {
      EXPECT_LE(std::abs(w.data[j]), bound);
      squares += static_cast<double>(w.data[j]) * w.data[j];
    }
    // A uniform draw in (-b, b) has variance b^2 / 3.
    const double variance = squares / static_cast<double>(w.rows * w.cols);
    EXPECT_NEAR(variance / (bound * bound / 3), 1.0, 0.3) << parameters.name(i);
  }
  for (int j = 0; j < 60; ++j) EXPECT_EQ(parameters.value(bias).data[j], 0.0F);
}

TEST(FeatureMatrix, WithoutRowsIsNotEmpty) {
  EXPECT_TRUE(FeatureMatrix().empty());
  const FeatureMatrix dense(Matrix(0, 5, MemoryUse::features, nullptr));
  EXPECT_FALSE(dense.empty());
  EXPECT_EQ(dense.view().cols(), 5);
}

}  // namespace
}  // namespace heliograph
