#include "train/plan/dataset_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/copy_bytes.hpp"
#include "core/thread.hpp"
#include "core/throw_error.hpp"
#include "graph/doubts.hpp"
#include "graph/partition/node_order.hpp"
#include "graph/rows.hpp"
#include "heliograph/error.hpp"
#include "heliograph/io.hpp"
#include "train/launch.hpp"
#include "train/plan/exchange_cost.hpp"
#include "train/plan/memory_check.hpp"
#include "train/plan/memory_needs.hpp"
#include "train/process_memory.hpp"

namespace heliograph {

namespace {

constexpr double kSlowEpoch = 60;  ///< Seconds of waiting that a user may not have meant.

/// Flags of the nodes whose features give the statistics of normalisation; empty for all nodes.
std::vector<std::uint8_t> fit_nodes(const Split& split, bool inductive) {
  std::vector<std::uint8_t> fit(inductive ? split.role.size() : 0);
  for (std::size_t v = 0; v < fit.size(); ++v) fit[v] = split.role[v] == Role::train ? 1 : 0;
  return fit;
}

/// Throws Error(bad_input) if all targets are equal, since nothing could be learned.
TargetStatistics fit_target(const Dataset& dataset, const std::vector<NodeId>& nodes) {
  const auto count = static_cast<double>(nodes.size());
  const auto value = [&](NodeId v) {
    return static_cast<double>(dataset.labels.values[static_cast<std::size_t>(v)]);
  };
  TargetStatistics target;
  for (const NodeId v : nodes) target.mean += value(v) / count;
  double variance = 0;
  for (const NodeId v : nodes) variance += std::pow(value(v) - target.mean, 2) / count;
  target.deviation = std::sqrt(variance);
  const bool equal =
      std::ranges::all_of(nodes, [&](NodeId v) { return value(v) == value(nodes.front()); });
  if (equal) {
    throw_error(ErrorCode::bad_input,
                "'{}': every training node has the target {}, so there is nothing to learn",
                dataset.name, value(nodes.front()));
  }
  return target;
}

}  // namespace

DatasetPlan::DatasetPlan(const Dataset& dataset, const TrainOptions& options,
                         const LogCallback& log, PlanPurpose purpose)
    : RunPlan(options, std::move(purpose)), dataset_(dataset), checks_memory_(purpose_.training) {
  resolve();
  if (purpose_.training) warn_of_doubts(dataset, true, log);
  // More parts than nodes are refused when the graph is cut.
  if (options.partition.parts <= dataset.graph.nodes) check_memory(std::nullopt);
  index(make_partition(dataset.graph, cut_of(options), log, &split_));
  if (purpose_.training) warn_of_slow_links(log);
}

DatasetPlan::DatasetPlan(const Dataset& dataset, Partition partition, const TrainOptions& options,
                         PlanPurpose purpose)
    : RunPlan(options, std::move(purpose)), dataset_(dataset), checks_memory_(false) {
  options_.partition.parts = partition.parts;
  resolve();
  index(std::move(partition));
}

void DatasetPlan::resolve() {
  validate(options_);
  validate(dataset_);
  split_ = make_split(dataset_, options_.split);
  facts_.name = dataset_.name;
  facts_.nodes = dataset_.graph.nodes;
  facts_.directed = dataset_.graph.directed;
  facts_.weights = weight_range(dataset_.graph);
  facts_.task = dataset_.labels.task;
  count_roles();
  facts_.classes = dataset_.labels.classes;
  facts_.feature_cols = dataset_.features.cols;
  facts_.sparse_features = dataset_.features.sparse;
  facts_.class_names = dataset_.class_names;
  resolve_metric_and_check();
  if (options_.normalize == Normalization::standard) {
    facts_.statistics = purpose_.statistics.empty()
                            ? fit_features(dataset_.features, fit_nodes(split_, options_.inductive))
                            : purpose_.statistics;
  }
  if (facts_.task == Task::regression) {
    facts_.target = purpose_.target ? *purpose_.target : fit_target(dataset_, train_nodes_);
  }
  features_ = normalize_features(dataset_.features, options_.normalize, facts_.statistics);
}

void DatasetPlan::index(Partition partition) {
  partition_ = std::move(partition);
  facts_.ranks = partition_.parts;
  facts_.quality = measure_partition(dataset_.graph, partition_);
  facts_.partition_hash = partition_hash(partition_);
  // The halos of an induced graph are others and not known here.
  const bool knows_halos = !options_.inductive;
  const bool may_use_covers = may_cover(options_);
  if (!may_use_covers) {
    resolve_exchange();
    if (knows_halos) check_memory(facts_.quality.communication_volume);
  }
  if (dataset_.graph.directed) transposed_ = transpose(dataset_.graph);
  const std::vector<NodeId> order = order_nodes(dataset_.graph, options_.node_order);
  whole_.emplace(dataset_.graph, partition_, nullptr, order);
  if (options_.inductive) induced_.emplace(dataset_.graph, partition_, &train_nodes_, order);
  if (may_use_covers || purpose_.finds_covers) find_covers();
  if (!may_use_covers) return;
  resolve_exchange();
  if (!knows_halos) return;
  check_memory(covers() ? facts_.covers->rows + facts_.covers->sums
                        : facts_.quality.communication_volume);
}

void DatasetPlan::find_covers() {
  const Graph* transposed = transposed_ ? &*transposed_ : nullptr;
  whole_covers_.emplace(*whole_, transposed, usable_cores());
  if (induced_) induced_covers_.emplace(*induced_, transposed, usable_cores());
  facts_.covers = (induced_ ? induced_covers_ : whole_covers_)->counts();
}

void DatasetPlan::count_roles() {
  bool kinds[2] = {false, false};
  const bool multiclass = facts_.task == Task::multiclass;
  if (multiclass) facts_.training_of_class.resize(at(dataset_.labels.classes));
  for (std::size_t v = 0; v < split_.role.size(); ++v) {
    const Role role = split_.role[v];
    if (role == Role::train) {
      train_nodes_.push_back(static_cast<NodeId>(v));
      if (multiclass) ++facts_.training_of_class[at(dataset_.labels.class_of[v])];
    }
    if (role == Role::test) ++facts_.test_nodes;
    if (role != Role::validation) continue;
    ++facts_.validation_nodes;
    if (multiclass) kinds[dataset_.labels.class_of[v] == 1 ? 1 : 0] = true;
  }
  facts_.training_nodes = static_cast<std::int64_t>(train_nodes_.size());
  facts_.validates_both_classes = kinds[0] && kinds[1];
}

void DatasetPlan::check_memory(std::optional<std::int64_t> halo_rows) const {
  if (!checks_memory_) return;
  TrainOptions options = options_;
  options.exchange = exchange_;
  const MemoryNeeds needs =
      least_memory(dataset_, options, static_cast<std::int64_t>(train_nodes_.size()), halo_rows);
  const DeviceKind device = options_.transport.device;
  const std::int64_t limit = options_.memory_limit_bytes;
  if (limit > 0 || device == DeviceKind::cpu) {
    require_memory(needs, limit, available_memory_bytes(), device);
  } else if (!ranks_are_processes(options_.transport)) {  // Other processes have other devices.
    require_memory(needs, 0, cuda_available_bytes(options_.partition.parts), device);
    require_host_memory(
        least_host_memory(dataset_, options, static_cast<std::int64_t>(train_nodes_.size()),
                          halo_rows),
        available_memory_bytes());
  }
}

void DatasetPlan::warn_of_slow_links(const LogCallback& log) const {
  const double gbps = options_.transport.link_gbps;
  if (gbps == 0 || !log) return;
  const auto& found = induced_ ? induced_covers_ : whole_covers_;
  const auto cost =
      exchange_costs(dataset_, partition_, options_, options_.inductive ? &split_ : nullptr,
                     {&exchange_, 1}, found ? &*found : nullptr);
  const double seconds = 8e-9 * static_cast<double>(cost[0].link_bytes) / gbps;
  if (seconds < kSlowEpoch) return;
  log(LogLevel::warning, fmt::format(fmt::runtime(spell_options(
                                         "at --link-gbps {} the busiest link takes {:.4g} s for "
                                         "the {} bytes that it carries an epoch")),
                                     gbps, seconds, cost[0].link_bytes));
}

RankData DatasetPlan::load(int rank, GraphScope scope, MemoryUse use,
                           MemoryAccount* account) const {
  const NodeIndex& index = scope == GraphScope::training && induced_ ? *induced_ : *whole_;
  RankData data;
  data.shard = build_shard(index, rank, transposed_ ? &*transposed_ : nullptr);
  const auto& covers = &index == &*whole_ ? whole_covers_ : induced_covers_;
  if (covers) covers->mark(data.shard);
  data.labels = labels_of(data.shard.global_ids);
  data.features = features_of(data.shard.global_ids, use, account);
  return data;
}

LocalLabels DatasetPlan::labels_of(const std::vector<std::int64_t>& ids) const {
  const Labels& all = dataset_.labels;
  LocalLabels labels;
  labels.task = all.task;
  labels.classes = all.classes;
  labels.target = facts_.target;
  labels.role.reserve(ids.size());
  if (all.task == Task::multiclass) {
    labels.class_of.reserve(ids.size());
  } else if (all.task == Task::regression) {
    labels.values.reserve(ids.size());
  } else {
    labels.indicators.reserve(ids.size() * static_cast<std::size_t>(all.classes));
  }
  for (const std::int64_t id : ids) {
    const auto v = static_cast<std::size_t>(id);
    labels.role.push_back(split_.role[v]);
    if (all.task == Task::multiclass) {
      labels.class_of.push_back(all.class_of[v]);
    } else if (all.task == Task::regression) {
      labels.values.push_back(all.values[v]);
    } else {
      const auto classes = static_cast<std::size_t>(all.classes);
      const std::uint8_t* row = all.indicators.data() + v * classes;
      labels.indicators.insert(labels.indicators.end(), row, row + classes);
    }
  }
  return labels;
}

FeatureMatrix DatasetPlan::features_of(const std::vector<std::int64_t>& ids, MemoryUse use,
                                       MemoryAccount* account) const {
  if (!features_.sparse) {
    Matrix dense(static_cast<std::int64_t>(ids.size()), features_.cols, use, account);
    for (std::int64_t r = 0; r < dense.view().rows; ++r) {
      const auto v = static_cast<std::size_t>(ids[static_cast<std::size_t>(r)]);
      std::copy_n(features_.dense.data() + v * static_cast<std::size_t>(features_.cols),
                  features_.cols, dense.view().row(r));
    }
    return FeatureMatrix(std::move(dense));
  }
  const auto begin_of = [&](std::int64_t id) {
    return features_.offsets[static_cast<std::size_t>(id)];
  };
  std::int64_t entries = 0;
  for (const std::int64_t id : ids) entries += begin_of(id + 1) - begin_of(id);
  SparseBuffers rows(static_cast<std::int64_t>(ids.size()), features_.cols, entries, use, account);
  std::int64_t* offset = rows.offsets.as<std::int64_t>().data();
  for (const std::int64_t id : ids) {
    const std::int64_t begin = begin_of(id), count = begin_of(id + 1) - begin;
    std::copy_n(features_.columns.data() + begin, count,
                rows.columns.as<std::int32_t>().data() + *offset);
    std::copy_n(features_.values.data() + begin, count, rows.values.as<float>().data() + *offset);
    offset[1] = *offset + count;
    ++offset;
  }
  return FeatureMatrix(std::move(rows));
}

}  // namespace heliograph
