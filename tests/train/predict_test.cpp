#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heliograph/model.hpp"
#include "heliograph/train.hpp"
#include "support/expect_error.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"

// Predictions, logits and embeddings of a trained model, of nodes with and without labels.

namespace heliograph {
namespace {

/// `data` as it is before anyone has labelled it.
Dataset unlabelled(Dataset data) {
  data.labels = Labels();
  data.splits.clear();
  return data;
}

TEST(Predict, NeedsNoLabelsAndNoFolder) {
  for (const bool multilabel : {false, true}) {
    const Dataset data = test::make_small_dataset(160, 6, 3, 5, multilabel);
    TrainOptions o = test::small_options(2, 6);
    o.keep_logits = o.keep_embeddings = true;
    const TrainResult r = train(data, o);
    PredictOptions two;
    two.ranks = 2;
    two.logits = two.embeddings = true;
    const Outputs out = r.model->predict(unlabelled(data), two);
    EXPECT_EQ(out.predictions, r.predictions);
    ASSERT_EQ(out.logits.size(), 160U * 3);
    ASSERT_EQ(out.embedding_cols, 16);
    ASSERT_EQ(out.embeddings.size(), 160U * 16);
    for (std::size_t i = 0; i < out.logits.size(); ++i) {
      EXPECT_NEAR(out.logits[i], r.logits[i], 1e-5);
    }
    for (std::size_t v = 0; v < 160; ++v) {
      const float* z = out.logits.data() + 3 * v;
      if (multilabel) {
        for (std::size_t c = 0; c < 3; ++c) EXPECT_EQ(out.predictions[3 * v + c], z[c] > 0);
      } else {
        EXPECT_EQ(out.predictions[v], std::max_element(z, z + 3) - z);
      }
    }
    const Outputs plain = r.model->predict(unlabelled(data));
    EXPECT_EQ(plain.predictions.size(), out.predictions.size());
    EXPECT_TRUE(plain.logits.empty());
    EXPECT_TRUE(plain.embeddings.empty());
  }
}

// In a graph without edges, each of GCN's sums is over the node itself.
TEST(Predict, EmbeddingsTimesTheLastLayerAreTheLogits) {
  Dataset data = test::make_small_dataset(60, 6, 3, 5);
  data.graph.offsets = std::vector<std::int64_t>(61, 0);
  data.graph.neighbours = std::vector<NodeId>();
  for (const bool precompute : {false, true}) {
    TrainOptions o = test::small_options(2, 3);
    o.model.kind = ModelKind::gcn;
    o.model.layers = 3;
    o.model.precompute = precompute;
    o.keep_logits = o.keep_embeddings = true;
    const TrainResult r = train(data, o);
    const auto tensor = [&](const std::string& name) {
      return std::ranges::find(r.model->tensors, name, &Tensor::name)->values;
    };
    const auto weight = tensor("layers.2.weight"), bias = tensor("layers.2.bias");
    ASSERT_EQ(r.embedding_cols, 16);
    for (std::size_t v = 0; v < 60; ++v) {
      for (std::size_t c = 0; c < 3; ++c) {
        double z = bias[c];
        for (std::size_t h = 0; h < 16; ++h) {
          z += static_cast<double>(r.embeddings[v * 16 + h]) * weight[h * 3 + c];
        }
        EXPECT_NEAR(r.logits[v * 3 + c], z, 1e-5);
      }
    }
  }
}

TEST(Predict, BatchNormNeedsManyRowsOnlyInTraining) {
  const Dataset data = test::make_small_dataset(40, 6, 3, 5);
  TrainOptions o = test::small_options(1, 2);
  o.model.norm = NormLayer::batch;
  const TrainResult r = train(data, o);
  Dataset one = test::make_small_dataset(1, 6, 3, 0);
  EXPECT_EQ(r.model->predict(unlabelled(one)).predictions.size(), 1U);
}

TEST(Residuals, ThatJoinNothingAreNamed) {
  const Dataset data = test::make_small_dataset(40, 6, 3, 5);
  TrainOptions o = test::small_options(1, 1);
  o.model.residual = Residual::identity;
  TrainCallbacks callbacks;
  std::string lines;
  callbacks.log = [&](LogLevel, std::string_view text) { lines.append(text); };
  const auto warned = [&] {
    lines.clear();
    train(data, o, callbacks);
    return lines.find("residual has no effect") != std::string::npos;
  };
  EXPECT_TRUE(warned());
  o.model.hidden = 6;
  EXPECT_FALSE(warned());
  o.model.hidden = 16;
  o.model.layers = 3;
  EXPECT_FALSE(warned());
  o.model.kind = ModelKind::gcnii;
  o.model.layers = 1;
  EXPECT_FALSE(warned());
}

TEST(Predict, RefusesWhatItCannotDo) {
  const Dataset data = test::make_small_dataset(40, 6, 3, 5);
  TrainOptions o = test::small_options(1, 2);
  o.model.layers = 1;
  const TrainResult r = train(data, o);
  PredictOptions wish;
  wish.embeddings = true;
  test::expect_error(ErrorCode::usage, "2 layers", [&] { r.model->predict(data, wish); });
  test::expect_error(ErrorCode::mismatch, "feature columns",
                     [&] { r.model->predict(test::make_small_dataset(40, 5, 3, 5)); });
  Dataset negative = data;
  negative.graph.nodes = -1;
  test::expect_error(ErrorCode::bad_input, "-1 nodes", [&] { r.model->predict(negative); });
  Model huge = *r.model;
  huge.task = Task::multilabel;
  huge.classes = 1 << 30;
  test::expect_error(ErrorCode::bad_input, "1073741824 classes", [&] { huge.predict(data); });
}

}  // namespace
}  // namespace heliograph
