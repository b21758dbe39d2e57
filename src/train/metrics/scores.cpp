#include "train/metrics/scores.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "comm/collectives.hpp"
#include "core/throw_error.hpp"
#include "graph/task_name.hpp"
#include "heliograph/error.hpp"
#include "train/gather_values.hpp"
#include "train/options/values.hpp"

namespace heliograph {
namespace {

constexpr double kNoScore = std::numeric_limits<double>::quiet_NaN();
constexpr int kSets = 3;

/// 0, 1, 2 for training, validation, test; -1 for none.
int set_of(Role role) { return static_cast<int>(role) - 1; }

/// Gathers value_of(i) of every node i in a set, and has rank 0 score the values of each set.
template <class ValueOf, class ScoreOf>
Scores scores_of_sets(const LocalLabels& labels, Communicator& comm, ValueOf value_of,
                      ScoreOf score_of) {
  using Value = decltype(value_of(std::size_t{}));
  struct Member {  // A pair is not trivially copyable.
    typename Value::first_type first;
    typename Value::second_type second;
    std::int8_t set;
  };
  std::vector<Member> mine;
  for (std::size_t i = 0; i < labels.role.size(); ++i) {
    const int set = set_of(labels.role[i]);
    if (set < 0) continue;
    const Value value = value_of(i);
    mine.push_back({value.first, value.second, static_cast<std::int8_t>(set)});
  }
  const auto members = gather_values(comm, std::span<const Member>(mine));
  std::array<double, kSets> scores{};
  for (int set = 0; comm.rank() == 0 && set < kSets; ++set) {
    std::vector<Value> values;
    for (const Member& member : members) {
      if (member.set == set) values.emplace_back(member.first, member.second);
    }
    scores[static_cast<std::size_t>(set)] = score_of(std::move(values));
  }
  AllReduce(comm, Channel::evaluation).sum(std::span<double>(scores));
  return {scores[0], scores[1], scores[2]};
}

/// The sum, which depends neither on the order of the terms nor, so, on how ranks share the nodes.
double sum_sorted(std::vector<double> terms) {
  std::sort(terms.begin(), terms.end());
  return std::accumulate(terms.begin(), terms.end(), 0.0);
}

/// `nodes`: targets and predictions.
double regression_score(Metric metric, const std::vector<std::pair<float, float>>& nodes) {
  if (nodes.empty()) return kNoScore;
  std::vector<double> targets, squares;
  for (const auto& [target, predicted] : nodes) {
    const double error = static_cast<double>(predicted) - static_cast<double>(target);
    targets.push_back(static_cast<double>(target));
    squares.push_back(error * error);
  }
  const auto count = static_cast<double>(targets.size());
  const double residual = sum_sorted(std::move(squares));
  if (metric == Metric::rmse) return std::sqrt(residual / count);
  if (nodes.size() < 2) return kNoScore;
  const double mean = sum_sorted(targets) / count;
  for (double& target : targets) target = (target - mean) * (target - mean);
  const double total = sum_sorted(std::move(targets));
  if (total == 0) return residual == 0 ? 1 : 0;
  return 1 - residual / total;
}

}  // namespace

std::int32_t predicted_class(const float* logits, std::int64_t classes) {
  return static_cast<std::int32_t>(std::max_element(logits, logits + classes) - logits);
}

double roc_auc(std::vector<std::pair<float, std::uint8_t>> scored) {
  std::sort(scored.begin(), scored.end());
  std::int64_t positives = 0;
  std::int64_t negatives = 0;
  std::int64_t twice_wins = 0;  // A tied pair counts 1, a pair in the right order 2.
  for (std::size_t i = 0; i < scored.size();) {
    std::int64_t tied_positive = 0;
    std::int64_t tied_negative = 0;
    const float score = scored[i].first;
    do {
      (scored[i].second != 0 ? tied_positive : tied_negative) += 1;
    } while (++i < scored.size() && scored[i].first == score);
    twice_wins += tied_positive * (2 * negatives + tied_negative);
    positives += tied_positive;
    negatives += tied_negative;
  }
  if (positives == 0 || negatives == 0) return kNoScore;
  return static_cast<double>(twice_wins) /
         (2.0 * static_cast<double>(positives) * static_cast<double>(negatives));
}

double average_precision(std::vector<std::pair<float, std::uint8_t>> scored) {
  std::sort(scored.rbegin(), scored.rend());
  std::int64_t positives = 0;
  double sum = 0;
  for (std::size_t i = 0; i < scored.size();) {
    std::int64_t tied_positive = 0;
    const float score = scored[i].first;
    do {
      tied_positive += scored[i].second;
    } while (++i < scored.size() && scored[i].first == score);
    positives += tied_positive;
    sum += static_cast<double>(tied_positive) * static_cast<double>(positives) /
           static_cast<double>(i);
  }
  const bool both = positives > 0 && positives < std::ssize(scored);
  return both ? sum / static_cast<double>(positives) : kNoScore;
}

Scores distributed_scores(Metric metric, const LocalLabels& labels, ConstMatrixView logits,
                          Communicator& comm) {
  const auto row = [&](std::size_t i) { return logits.row(static_cast<std::int64_t>(i)); };
  if (labels.task == Task::regression) {
    return scores_of_sets(
        labels, comm,
        [&](std::size_t i) {
          return std::pair{labels.values[i], labels.predicted_value(row(i)[0])};
        },
        [&](const auto& nodes) { return regression_score(metric, nodes); });
  }
  if (ranks_nodes(metric)) {
    return scores_of_sets(
        labels, comm,
        [&](std::size_t i) {
          return std::pair{row(i)[1] - row(i)[0],
                           static_cast<std::uint8_t>(labels.class_of[i] == 1)};
        },
        metric == Metric::auc ? roc_auc : average_precision);
  }
  // For each set and class, or for all classes together: true positives, then the sum of predicted
  // and actual positives.
  const bool macro = metric == Metric::macro_f1;
  const auto groups = static_cast<std::size_t>(macro ? labels.classes : 1);
  std::vector<std::int64_t> counts(2 * groups * kSets, 0);
  for (std::int64_t r = 0; r < logits.rows; ++r) {
    const auto i = static_cast<std::size_t>(r);
    const int set = set_of(labels.role[i]);
    if (set < 0) continue;
    std::int64_t* of_set = counts.data() + 2 * groups * static_cast<std::size_t>(set);
    const auto count = [&](std::int32_t c, int predicted, int actual) {
      std::int64_t* of_class = of_set + (macro ? 2 * c : 0);
      of_class[0] += predicted & actual;
      of_class[1] += predicted + actual;
    };
    const float* z = row(i);
    if (labels.task == Task::multiclass) {
      const std::int32_t predicted = predicted_class(z, labels.classes);
      const std::int32_t actual = labels.class_of[i];
      count(predicted, 1, predicted == actual);
      if (predicted != actual) count(actual, 0, 1);
      continue;
    }
    const std::uint8_t* y = labels.indicators.data() + i * static_cast<std::size_t>(labels.classes);
    for (std::int32_t c = 0; c < labels.classes; ++c) count(c, z[c] > 0 ? 1 : 0, y[c]);
  }
  AllReduce(comm, Channel::evaluation).sum(std::span<std::int64_t>(counts));
  const auto score = [&](std::size_t set) {
    double sum = 0;
    std::size_t occur = 0;
    for (std::size_t c = 0; c < groups; ++c) {
      const std::int64_t* count = counts.data() + 2 * (groups * set + c);
      if (count[1] == 0) continue;
      sum += 2.0 * static_cast<double>(count[0]) / static_cast<double>(count[1]);
      ++occur;
    }
    if (occur == 0) return kNoScore;
    const bool all = macro && labels.task == Task::multilabel;
    return sum / static_cast<double>(all ? groups : occur);
  };
  return {score(0), score(1), score(2)};
}

Metric resolve_metric(Metric metric, Task task, std::int32_t classes) {
  const bool multilabel = task == Task::multilabel;
  const bool regression = task == Task::regression;
  if (metric == Metric::automatic && regression) return Metric::r2;
  if (metric != Metric::automatic &&
      regression != (metric == Metric::r2 || metric == Metric::rmse)) {
    throw_error(ErrorCode::usage, "--metric {} does not score {}; use {}", choice_name(metric),
                label_text(task), regression ? "r2 or rmse" : "auto");
  }
  if (metric == Metric::automatic) {
    if (multilabel) return Metric::f1;
    return classes == 2 ? Metric::auc : Metric::accuracy;
  }
  if (ranks_nodes(metric) && (multilabel || classes != 2)) {
    throw_error(ErrorCode::usage, "--metric {} needs a binary target; this one has {} {}",
                choice_name(metric), classes, multilabel ? "labels" : "classes");
  }
  if (metric == Metric::accuracy && multilabel) {
    throw_error(ErrorCode::usage,
                "--metric accuracy needs one class a node; use f1 or macro-f1 for multi-label");
  }
  return metric;
}

}  // namespace heliograph
