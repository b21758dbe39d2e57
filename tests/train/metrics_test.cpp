#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <random>
#include <vector>

#include "comm/threads/transport.hpp"
#include "core/buffer.hpp"
#include "heliograph/error.hpp"
#include "train/metrics/scores.hpp"

namespace heliograph {
namespace {

TEST(RocAuc, HandWorked) {
  EXPECT_DOUBLE_EQ(roc_auc({{0.1F, 0}, {0.9F, 1}}), 1.0);
  EXPECT_DOUBLE_EQ(roc_auc({{0.9F, 0}, {0.1F, 1}}), 0.0);
  EXPECT_DOUBLE_EQ(roc_auc({{0.5F, 0}, {0.5F, 1}}), 0.5);
  // Pairs (positive, negative): (3, 1) won, (3, 2) won, (2, 1) won, (2, 2) tied.
  EXPECT_DOUBLE_EQ(roc_auc({{1, 0}, {2, 0}, {2, 1}, {3, 1}}), 3.5 / 4);
  EXPECT_TRUE(std::isnan(roc_auc({{1, 1}, {2, 1}})));
  EXPECT_TRUE(std::isnan(roc_auc({})));
}

TEST(RocAuc, EqualsCountingPairs) {
  std::mt19937 random(5);
  std::vector<std::pair<float, std::uint8_t>> scored;
  for (int i = 0; i < 300; ++i) {
    scored.emplace_back(static_cast<float>(random() % 40), random() % 3 == 0);
  }
  double wins = 0;
  double pairs = 0;
  for (const auto& [p, positive] : scored) {
    for (const auto& [n, other] : scored) {
      if (positive == 0 || other != 0) continue;
      pairs += 1;
      wins += p > n ? 1 : (p == n ? 0.5 : 0);
    }
  }
  EXPECT_DOUBLE_EQ(roc_auc(scored), wins / pairs);
}

TEST(AveragePrecision, HandWorked) {
  // The example of scikit-learn's average_precision_score.
  EXPECT_DOUBLE_EQ(average_precision({{0.1F, 0}, {0.4F, 0}, {0.35F, 1}, {0.8F, 1}}),
                   (1.0 + 2.0 / 3) / 2);
  // Nodes of equal scores share a threshold: precision 2/3 at recall 2/3, then 3/5 at recall 1.
  EXPECT_DOUBLE_EQ(average_precision({{2, 1}, {2, 0}, {2, 1}, {1, 1}, {1, 0}}),
                   2.0 / 3 * 2 / 3 + 3.0 / 5 * 1 / 3);
  EXPECT_DOUBLE_EQ(average_precision({{1, 0}, {2, 1}}), 1.0);
  EXPECT_TRUE(std::isnan(average_precision({{1, 1}, {2, 1}})));
  EXPECT_TRUE(std::isnan(average_precision({{1, 0}, {2, 0}})));
  EXPECT_TRUE(std::isnan(average_precision({})));
}

TEST(ResolveMetric, FollowsTheTask) {
  Labels labels;
  labels.classes = 7;
  EXPECT_EQ(resolve_metric(Metric::automatic, labels.task, labels.classes), Metric::accuracy);
  for (const Metric ranking : {Metric::auc, Metric::average_precision}) {
    EXPECT_THROW(resolve_metric(ranking, labels.task, labels.classes), Error);
  }
  labels.classes = 2;
  EXPECT_EQ(resolve_metric(Metric::automatic, labels.task, labels.classes), Metric::auc);
  EXPECT_EQ(resolve_metric(Metric::accuracy, labels.task, labels.classes), Metric::accuracy);
  labels.task = Task::multilabel;
  EXPECT_EQ(resolve_metric(Metric::automatic, labels.task, labels.classes), Metric::f1);
  EXPECT_THROW(resolve_metric(Metric::accuracy, labels.task, labels.classes), Error);
}

struct Whole {
  LocalLabels labels;
  std::vector<std::vector<float>> logits;
};

Whole make_whole(Task task, std::int32_t classes, int nodes) {
  std::mt19937 random(17);
  std::normal_distribution<float> normal;
  Whole w;
  w.labels.task = task;
  w.labels.classes = classes;
  for (int v = 0; v < nodes; ++v) {
    w.labels.role.push_back(static_cast<Role>(random() % 4));
    if (task == Task::multiclass) {
      w.labels.class_of.push_back(
          static_cast<std::int32_t>(random() % static_cast<unsigned>(classes)));
    } else {
      for (int c = 0; c < classes; ++c) w.labels.indicators.push_back(random() % 3 == 0);
    }
    std::vector<float> row;
    for (int c = 0; c < classes; ++c) row.push_back(normal(random));
    w.logits.push_back(row);
  }
  return w;
}

/// The scores of `w` as the last of `ranks` ranks sees them when its nodes are dealt out to the
/// ranks.
Scores scores_over(const Whole& w, Metric metric, int ranks) {
  Scores result{};
  std::mutex mutex;
  run_ranks(ranks, {}, [&](Communicator& comm) {
    LocalLabels mine;
    mine.task = w.labels.task;
    mine.classes = w.labels.classes;
    std::vector<std::size_t> nodes;
    for (std::size_t v = 0; v < w.logits.size(); ++v) {
      if (static_cast<int>(v * 7 % 5) % ranks == comm.rank()) nodes.push_back(v);
    }
    const auto classes = static_cast<std::size_t>(w.labels.classes);
    Matrix logits(static_cast<std::int64_t>(nodes.size()), w.labels.classes, MemoryUse::workspace,
                  nullptr);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::size_t v = nodes[i];
      mine.role.push_back(w.labels.role[v]);
      if (mine.task == Task::multiclass) {
        mine.class_of.push_back(w.labels.class_of[v]);
      } else {
        const auto* row = w.labels.indicators.data() + v * classes;
        mine.indicators.insert(mine.indicators.end(), row, row + classes);
      }
      std::copy(w.logits[v].begin(), w.logits[v].end(),
                logits.view().row(static_cast<std::int64_t>(i)));
    }
    const Scores scores = distributed_scores(metric, mine, logits.view(), comm);
    const std::lock_guard lock(mutex);
    if (comm.rank() == ranks - 1) result = scores;
  });
  return result;
}

TEST(DistributedScores, AccuracyIsCorrectOverAllOnAnyNumberOfRanks) {
  const Whole w = make_whole(Task::multiclass, 4, 200);
  double hits = 0;
  double total = 0;
  for (std::size_t v = 0; v < w.logits.size(); ++v) {
    if (w.labels.role[v] != Role::validation) continue;
    total += 1;
    hits += predicted_class(w.logits[v].data(), 4) == w.labels.class_of[v] ? 1 : 0;
  }
  for (const int ranks : {1, 3, 5}) {
    EXPECT_DOUBLE_EQ(scores_over(w, Metric::accuracy, ranks).validation, hits / total);
    EXPECT_DOUBLE_EQ(scores_over(w, Metric::f1, ranks).validation, hits / total);
  }
}

TEST(DistributedScores, MicroF1CountsEveryLabel) {
  const Whole w = make_whole(Task::multilabel, 6, 150);
  double tp = 0;
  double fp = 0;
  double fn = 0;
  for (std::size_t v = 0; v < w.logits.size(); ++v) {
    if (w.labels.role[v] != Role::test) continue;
    for (std::size_t c = 0; c < 6; ++c) {
      const bool predicted = w.logits[v][c] > 0;
      const bool truth = w.labels.indicators[v * 6 + c] != 0;
      tp += predicted && truth ? 1 : 0;
      fp += predicted && !truth ? 1 : 0;
      fn += !predicted && truth ? 1 : 0;
    }
  }
  const double precision = tp / (tp + fp);
  const double recall = tp / (tp + fn);
  const double f1 = 2 * precision * recall / (precision + recall);
  for (const int ranks : {1, 4}) EXPECT_NEAR(scores_over(w, Metric::f1, ranks).test, f1, 1e-12);
}

/// Nodes whose set is validation, with these true and predicted classes.
Whole make_predicted(const std::vector<std::int32_t>& truth,
                     const std::vector<std::int32_t>& predicted, std::int32_t classes) {
  Whole w;
  w.labels.classes = classes;
  w.labels.class_of = truth;
  w.labels.role.assign(truth.size(), Role::validation);
  for (const std::int32_t c : predicted) {
    w.logits.emplace_back(static_cast<std::size_t>(classes), 0.0F);
    w.logits.back()[static_cast<std::size_t>(c)] = 1;
  }
  return w;
}

TEST(DistributedScores, MacroF1IsTheMeanOverTheClassesThatOccur) {
  // scikit-learn's f1_score(truth, predicted, average="macro") of these: class 0 has F1 2/3, class
  // 1 1/2, class 2, which is never predicted, 0; class 3, which is only predicted, 0; class 4 does
  // not occur and does not count.
  const Whole w = make_predicted({0, 0, 0, 1, 1, 2}, {0, 0, 1, 1, 3, 0}, 5);
  const double expected = (2.0 * 2 / 6 + 2.0 * 1 / 4 + 0 + 0) / 4;
  for (const int ranks : {1, 3}) {
    const Scores scores = scores_over(w, Metric::macro_f1, ranks);
    EXPECT_DOUBLE_EQ(scores.validation, expected);
    EXPECT_TRUE(std::isnan(scores.test));
  }
}

TEST(DistributedScores, MacroF1OfLabelsIsTheMeanOverAllOfThem) {
  Whole w;
  w.labels.task = Task::multilabel;
  w.labels.classes = 3;
  w.labels.role.assign(2, Role::test);
  w.labels.indicators = {1, 0, 0, 1, 1, 0};
  w.logits = {{1, 1, -1}, {-1, 1, -1}};
  // Label 0: one hit, one miss. Label 1: one hit, one false alarm. Label 2 does not occur: 0.
  for (const int ranks : {1, 2}) {
    EXPECT_DOUBLE_EQ(scores_over(w, Metric::macro_f1, ranks).test, (2.0 / 3 + 2.0 / 3 + 0) / 3);
  }
}

TEST(DistributedScores, NodesAreRankedOverAllRanksAtOnce) {
  const Whole w = make_whole(Task::multiclass, 2, 300);
  std::vector<std::pair<float, std::uint8_t>> scored;
  for (std::size_t v = 0; v < w.logits.size(); ++v) {
    if (w.labels.role[v] != Role::test) continue;
    scored.emplace_back(w.logits[v][1] - w.logits[v][0], w.labels.class_of[v] == 1);
  }
  for (const int ranks : {1, 5}) {
    EXPECT_EQ(scores_over(w, Metric::auc, ranks).test, roc_auc(scored));
    EXPECT_EQ(scores_over(w, Metric::average_precision, ranks).test, average_precision(scored));
  }
}

}  // namespace
}  // namespace heliograph
