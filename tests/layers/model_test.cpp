#include "layers/model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/graphs.hpp"
#include "support/passes.hpp"

namespace heliograph {
namespace {

TEST(Dropout, MasksAreDrawnAnewInEveryEpoch) {
  const Dataset data = testing::make_small_dataset(60, 17, 5, 7);
  for (const bool precompute : {false, true}) {
    ModelOptions options;
    options.kind = ModelKind::gcn;
    options.layers = 1;  // the input's mask is the only one
    options.hidden = 9;
    options.precompute = precompute;
    testing::SingleRank rank(data, options);
    const double third = rank.loss();
    EXPECT_EQ(rank.loss(), third);
    rank.epoch = 4;
    EXPECT_NE(rank.loss(), third);
  }
}

TEST(Dropout, OfZeroDoesNotDependOnTheEpoch) {
  const Dataset data = testing::make_small_dataset(60, 17, 5, 7);
  ModelOptions options;
  options.dropout = 0;
  testing::SingleRank rank(data, options);
  const double third = rank.loss();
  rank.epoch = 4;
  EXPECT_EQ(rank.loss(), third);
}

TEST(Model, InferenceIsTheForwardPassWithoutDropout) {
  const Dataset data = testing::make_small_dataset(60, 20, 3, 7);
  const Partition partition{1, std::vector<std::int32_t>(60, 0)};
  const NodeIndex index(data.graph, partition);
  const Shard shard = build_shard(index, 0, nullptr);
  const auto kernels = make_cpu_kernels(1, false);
  Matrix x(60, 20, MemoryRoom::features, nullptr);
  for (std::int64_t r = 0; r < 60; ++r) {
    std::copy_n(data.features.dense.data() + r * 20, 20, x.view().row(r));
  }
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
            options.residual = residual;
            options.precompute = false;
            options.transform_first = transform_first;
            const GraphOperator op(shard, kind, MemoryRoom::graph, nullptr);
            Model model(options, 20, false, 3, 5, 60, 60, *kernels, nullptr);
            testing::NoHalo halo;
            PhaseClock clock;
            const PassContext pass{*kernels, halo, clock, 0, 11};
            const ModelInput input{FeatureView::of(x.view()), std::nullopt};
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

/// Remembers which passes promised rows that are never negative, and whether that was true.
class PromiseHalo final : public Halo {
 public:
  void begin(int layer, Direction direction, ConstMatrixView rows, const float*,
             bool nonnegative) override {
    if (direction == Direction::forward && layer > 0) promised = promised || nonnegative;
    for (std::int64_t r = 0; nonnegative && r < rows.rows; ++r) {
      for (std::int64_t c = 0; c < rows.cols; ++c) EXPECT_GE(rows.row(r)[c], 0.0F);
    }
  }
  void finish(int, Direction, FunctionRef<void(const PackedRows&)>) override {}

  bool promised = false;
};

// Behind a residual of features that may be negative, rows may be negative in every layer.
TEST(Model, PromisesRowsThatAreNeverNegativeOnlyWhereThatHolds) {
  for (const bool residual : {false, true}) {
    for (const std::int64_t cols : {12, 20}) {
      const Dataset data = testing::make_small_dataset(60, static_cast<int>(cols), 3, 7);
      ModelOptions options;
      options.layers = 3;
      options.hidden = 20;
      options.precompute = false;
      options.transform_first = false;
      options.residual = residual;
      const Partition partition{1, std::vector<std::int32_t>(60, 0)};
      const NodeIndex index(data.graph, partition);
      const Shard shard = build_shard(index, 0, nullptr);
      const auto kernels = make_cpu_kernels(1, false);
      const GraphOperator op(shard, options.kind, MemoryRoom::graph, nullptr);
      Matrix x(60, cols, MemoryRoom::features, nullptr);
      for (std::int64_t r = 0; r < 60; ++r) {
        std::copy_n(data.features.dense.data() + r * cols, cols, x.view().row(r));
      }
      Model model(options, cols, false, 3, 5, 60, 60, *kernels, nullptr);
      PromiseHalo halo;
      PhaseClock clock;
      const PassContext pass{*kernels, halo, clock, 0, 11};
      const ModelInput input{FeatureView::of(x.view()), std::nullopt};
      model.allocate_input_dropout(input, nullptr);
      model.forward(pass, op, input);
      EXPECT_EQ(halo.promised, !(residual && cols == 20));
    }
  }
}

TEST(Parameters, EveryWeightMatrixIsDrawnWithinItsBoundAndOthersAreZero) {
  Parameters parameters;
  const int narrow = parameters.declare("narrow", 1, 50, true);
  const int wide = parameters.declare("wide", 40, 60, true);
  const int bias = parameters.declare("bias", 1, 60, false);
  parameters.allocate(false, nullptr);
  parameters.initialise(3);
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
  const FeatureMatrix dense(Matrix(0, 5, MemoryRoom::features, nullptr));
  EXPECT_FALSE(dense.empty());
  EXPECT_EQ(dense.view().cols(), 5);
}

}  // namespace
}  // namespace heliograph
