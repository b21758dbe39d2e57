#include "train/plan/shard_writer.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "core/throw_error.hpp"
#include "graph/io/files.hpp"
#include "graph/io/json.hpp"
#include "graph/io/native_format.hpp"
#include "graph/task_name.hpp"
#include "heliograph/io.hpp"
#include "heliograph/model.hpp"
#include "train/options/json.hpp"
#include "train/plan/dataset_plan.hpp"
#include "train/plan/shard_format.hpp"
#include "train/run/summary.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// Writes one rank's file, array by array.
class RankFile {
 public:
  RankFile(const fs::path& directory, const ShardHeader& header)
      : name_(shard_file_name(header.rank)), file_(directory / name_) {
    file_.write(std::as_bytes(std::span(&header, 1)));
  }

  template <class T>
  void write(const std::string& name, std::span<const T> values) {
    begin(name, dtype_name<T>(), static_cast<std::int64_t>(values.size()));
    file_.write(std::as_bytes(values));
  }
  /// Rows of a matrix, without their padding.
  void write(const std::string& name, ConstMatrixView rows) {
    begin(name, dtype_name<float>(), rows.rows * rows.cols);
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      file_.write(std::as_bytes(std::span(rows.row(r), static_cast<std::size_t>(rows.cols))));
    }
  }

  /// Closes the file and returns its entry of the manifest.
  ordered_json close() {
    file_.close();
    return {{"file", name_},
            {"bytes", file_.size()},
            {"xxh64", hex64(file_.hash())},
            {"arrays", std::move(arrays_)}};
  }

 private:
  void begin(const std::string& name, std::string_view dtype, std::int64_t count) {
    arrays_.push_back({{"name", name}, {"dtype", dtype}, {"count", count}});
  }

  std::string name_;
  FileWriter file_;
  ordered_json arrays_ = ordered_json::array();
};

void write_adjacency(RankFile& file, const Adjacency& a, const std::string& prefix, bool weighted) {
  const auto write = [&](const std::string& name, const auto& values) {
    file.write(name, std::span(std::as_const(values)));
  };
  for_each_adjacency_array(a, prefix, weighted, write);
  const FlatPlan plan = flatten(a.plan);
  write(prefix + "peers", plan.peers);
  write(prefix + "send_rows", plan.send_rows);
  write(prefix + "halo_in_cover", a.cover.halo);
  write(prefix + "sent_in_cover", a.cover.sent);
}

void write_scope(RankFile& file, const RankData& data, GraphScope scope, bool weighted) {
  const std::string prefix = scope_prefix(scope);
  const auto write = [&](const std::string& name, const auto& values) {
    file.write(name, std::span(std::as_const(values)));
  };
  write(prefix + "global_ids", data.shard.global_ids);
  write(prefix + "in_degree", data.shard.in_degree);
  write_adjacency(file, data.shard.in, prefix + "in_", weighted);
  if (data.shard.out) write_adjacency(file, *data.shard.out, prefix + "out_", weighted);
  for_each_label_array(data.labels, prefix, write);
  const FeatureView x = data.features.view();
  if (!x.is_sparse) {
    file.write(prefix + "features", x.dense);
    return;
  }
  const auto rows = static_cast<std::size_t>(x.sparse.rows);
  const auto entries = static_cast<std::size_t>(x.sparse.offsets[rows]);
  write(prefix + "feature_offsets", std::span(x.sparse.offsets, rows + 1));
  write(prefix + "feature_columns", std::span(x.sparse.columns, entries));
  write(prefix + "feature_values", std::span(x.sparse.values, entries));
}

/// The options of these names, by flag name.
ordered_json some_options(const TrainOptions& options, const std::vector<std::string>& names) {
  const ordered_json all = options_for_elsewhere(options);
  ordered_json some = ordered_json::object();
  for (const std::string& name : names) {
    if (all.contains(name)) some[name] = all.at(name);
  }
  return some;
}

}  // namespace

void check_shard_target(const fs::path& directory, bool overwrite) {
  std::error_code ignored;
  if (!fs::exists(directory, ignored)) return;
  if (fs::is_directory(directory, ignored) && fs::is_empty(directory, ignored)) return;
  const auto refuse = [&](const std::string& what) {
    throw_error(ErrorCode::usage, "{} {}", directory.string(), what);
  };
  if (!is_shards(directory)) refuse("exists and holds no shards: it is not replaced");
  if (!overwrite) refuse("holds shards; choose another directory or add --overwrite");
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    const bool own = name == kManifestFile || name == kManifestHashFile ||
                     (name.starts_with("rank-") && name.ends_with(".shard"));
    if (!own || !entry.is_regular_file()) {
      refuse(fmt::format("holds {}, which is not part of shards: it is not replaced", name));
    }
  }
}

void write_shards(const Dataset& dataset, const Partition& partition, const TrainOptions& options,
                  const fs::path& directory, bool overwrite) {
  write_shards(dataset, partition, options, directory, overwrite, ordered_json::object());
}

void write_shards(const Dataset& dataset, const Partition& partition, const TrainOptions& options,
                  const fs::path& directory, bool overwrite, const ordered_json& reading) {
  check_shard_target(directory, overwrite);
  NewDirectory shards(directory);
  PlanPurpose purpose;
  purpose.finds_covers = true;
  if (!options.init_from.empty()) {
    const Model weights = Model::load(options.init_from);
    purpose.statistics = weights.statistics;
    purpose.target = weights.target;
  }
  const DatasetPlan plan(dataset, partition, options, std::move(purpose));
  const RunFacts& facts = plan.facts();
  ordered_json manifest = {
      {"format", kShardManifest.format},
      {"version", kShardManifest.newest},
      {"name", facts.name},
      {"nodes", facts.nodes},
      {"directed", dataset.graph.directed},
      {"training_nodes", facts.training_nodes},
      {"training_of_class", facts.training_of_class},
      {"validation_nodes", facts.validation_nodes},
      {"validation_has_both_classes", facts.validates_both_classes},
      {"test_nodes", facts.test_nodes},
      {"features", {{"cols", facts.feature_cols}, {"sparse", facts.sparse_features}}},
      {"labels",
       {{"task", task_name(facts.task)},
        {"classes", facts.classes},
        {"class_names", facts.class_names}}},
      {"statistics", {{"mean", facts.statistics.mean}, {"deviation", facts.statistics.deviation}}},
      {"target", {{"mean", facts.target.mean}, {"deviation", facts.target.deviation}}},
      {"options", some_options(plan.options(), shard_option_names())},
      {"graph_hash", dataset_hash(dataset)},
      {"partition_hash", facts.partition_hash},
  };
  if (facts.weights) {
    manifest["edge_weights"] = {{"least", facts.weights->least},
                                {"most", facts.weights->most},
                                {"source", facts.weights->source},
                                {"target", facts.weights->target}};
  }
  const std::string said = json_text(manifest);
  const std::uint64_t identity = xxh64(std::as_bytes(std::span(said)));
  manifest["identity"] = hex64(identity);
  manifest["cut"] = some_options(plan.options(), cut_option_names());
  manifest["reading"] = reading;
  manifest["partition"] = partition_to_json(facts.quality);
  manifest["covers"] = covers_to_json(*facts.covers);
  manifest["ranks"] = ordered_json::array();
  for (int rank = 0; rank < facts.ranks; ++rank) {
    ShardHeader header;
    header.identity = identity;
    header.rank = rank;
    header.ranks = facts.ranks;
    RankFile file(shards.temporary(), header);
    const auto write = [&](GraphScope scope) {
      write_scope(file, plan.load(rank, scope, MemoryUse::features, nullptr), scope,
                  facts.weights.has_value());
    };
    write(GraphScope::training);
    if (options.inductive) write(GraphScope::whole);
    manifest["ranks"].push_back(file.close());
  }
  write_manifest_file(shards.temporary(), manifest);
  check_shard_target(directory, overwrite);
  shards.publish();
}

}  // namespace heliograph
