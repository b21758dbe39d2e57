#include "train/run_plan.hpp"

#include <algorithm>

#include "graph/node_order.hpp"
#include "heliograph/error.hpp"
#include "heliograph/io.hpp"
#include "train/memory_check.hpp"
#include "train/metrics.hpp"
#include "train/process_memory.hpp"

namespace heliograph {
namespace {

Split choose_split(const Dataset& dataset, const TrainOptions& options) {
  if (options.random_split) {
    return random_split(dataset, options.train_share, options.validation_share, options.test_share,
                        options.split_seed, options.stratified);
  }
  const auto count = dataset.splits.size();
  if (count == 0) {
    throw Error(ErrorCode::usage,
                "'" + dataset.name + "' holds no split: ask for one, e.g. --split random:60/20/20");
  }
  if (static_cast<std::size_t>(options.split) >= count) {
    throw Error(ErrorCode::usage, "--split " + std::to_string(options.split) + ": '" +
                                      dataset.name + "' holds splits 0 to " +
                                      std::to_string(count - 1));
  }
  return dataset.splits[static_cast<std::size_t>(options.split)];
}

/// Data sets from files have been checked; those that a program made may not have been.
void check_split(const Dataset& dataset, const Split& split) {
  if (static_cast<std::int64_t>(split.role.size()) != dataset.graph.nodes) {
    throw Error(ErrorCode::bad_input, "'" + dataset.name + "': the split has " +
                                          std::to_string(split.role.size()) + " roles for " +
                                          std::to_string(dataset.graph.nodes) + " nodes");
  }
  for (std::size_t v = 0; v < split.role.size(); ++v) {
    if (split.role[v] != Role::none && !dataset.labels.has_label(static_cast<NodeId>(v))) {
      throw Error(ErrorCode::bad_input, "'" + dataset.name + "': node " + std::to_string(v) +
                                            " has a role in the split but no label");
    }
  }
}

/// Early stopping waits for a better validation score, so there must be one.
void check_validation_score(const Split& split, const Labels& labels, Metric metric) {
  bool any = false;
  bool kinds[2] = {false, false};
  for (std::size_t v = 0; v < split.role.size(); ++v) {
    if (split.role[v] != Role::validation) continue;
    any = true;
    if (metric == Metric::auc) kinds[labels.class_of[v] == 1 ? 1 : 0] = true;
  }
  if (!any) throw Error(ErrorCode::usage, "--patience needs validation nodes; the split has none");
  if (metric == Metric::auc && !(kinds[0] && kinds[1])) {
    throw Error(ErrorCode::usage,
                "--patience with --metric auc needs validation nodes of both classes");
  }
}

std::vector<std::uint8_t> fit_nodes(const Split& split, bool inductive) {
  std::vector<std::uint8_t> fit;
  if (!inductive) return fit;
  fit.reserve(split.role.size());
  for (const Role role : split.role) fit.push_back(role == Role::train ? 1 : 0);
  return fit;
}

}  // namespace

RunPlan::RunPlan(const Dataset& data, const TrainOptions& chosen, const LogCallback& log)
    : dataset(data), options(chosen) {
  validate(options);
  metric = resolve_metric(options.metric, dataset.labels);
  if (dataset.features.sparse && !options.model.precompute && !options.model.transform_first) {
    throw Error(ErrorCode::usage,
                "--no-precompute with --no-transform-first: sparse features are aggregated either "
                "before the first epoch or after the first product, so one of the two must stay");
  }
  split = choose_split(dataset, options);
  check_split(dataset, split);
  if (options.patience > 0) check_validation_score(split, dataset.labels, metric);
  for (std::size_t v = 0; v < split.role.size(); ++v) {
    if (split.role[v] == Role::train) train_nodes.push_back(static_cast<NodeId>(v));
  }
  if (train_nodes.empty()) throw Error(ErrorCode::bad_input, "the split has no training node");
  check_memory(std::nullopt);
  features =
      normalize_features(dataset.features, options.normalize, fit_nodes(split, options.inductive));

  PartitionOptions cut = options.partition;
  const bool balance =
      cut.balance_split != nullptr || (options.inductive && cut.partitioner == Partitioner::metis);
  cut.balance_split = balance ? &split : nullptr;
  partition = make_partition(dataset.graph, cut, log);
  quality = measure_partition(dataset.graph, partition);
  // The parts of an induced graph have other halos than those of the whole one.
  if (!options.inductive) check_memory(quality.communication_volume);
  if (dataset.graph.directed) transposed = transpose(dataset.graph);
  const std::vector<NodeId> order = order_nodes(dataset.graph, options.node_order);
  whole.emplace(dataset.graph, partition, nullptr, order);
  if (options.inductive) induced.emplace(dataset.graph, partition, &train_nodes, order);
}

void RunPlan::check_memory(std::optional<std::int64_t> halo_rows) const {
  require_memory(
      least_memory(dataset, options, static_cast<std::int64_t>(train_nodes.size()), halo_rows),
      options.memory_limit_bytes, available_memory_bytes());
}

}  // namespace heliograph
