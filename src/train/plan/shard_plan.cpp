#include "train/plan/shard_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "core/throw_error.hpp"
#include "graph/io/files.hpp"
#include "graph/io/json.hpp"
#include "graph/io/native_format.hpp"
#include "graph/task_name.hpp"
#include "graph/validate.hpp"
#include "heliograph/error.hpp"
#include "heliograph/shards.hpp"
#include "train/metrics/scores.hpp"
#include "train/options/json.hpp"
#include "train/plan/shard_format.hpp"
#include "train/run/summary.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Reads one rank's file, array by array, in the order of the manifest.
class RankFileReader {
 public:
  RankFileReader(const fs::path& directory, const json& entry, const ShardHeader& expected)
      : path_(directory / entry.at("file").get<std::string>()), entry_(entry), file_(path_) {
    ShardHeader header;
    file_.read(std::as_writable_bytes(std::span(&header, 1)));
    if (std::memcmp(header.magic, expected.magic, sizeof(header.magic)) != 0) {
      refuse_file(path_, "is not a shard");
    }
    if (header.identity != expected.identity || header.rank != expected.rank ||
        header.ranks != expected.ranks) {
      throw_error(ErrorCode::mismatch, "{} is rank {} of {} of other shards than {} describes",
                  path_.string(), header.rank, header.ranks, (directory / kManifestFile).string());
    }
    if (file_.size() != entry.at("bytes").get<std::uint64_t>()) {
      refuse_file(path_, fmt::format("is damaged: {} bytes instead of {}", file_.size(),
                                     json_text(entry.at("bytes"))));
    }
  }

  const fs::path& path() const { return path_; }

  template <class T>
  void read(const std::string& name, std::vector<T>& values) {
    values.resize(static_cast<std::size_t>(begin(name, dtype_name<T>())));
    file_.read(std::as_writable_bytes(std::span(values)));
  }
  template <class T>
  void read(const std::string& name, std::span<T> values) {
    if (begin(name, dtype_name<T>()) != static_cast<std::int64_t>(values.size())) {
      refuse_file(path_, fmt::format("its array {} has another length than it needs", name));
    }
    file_.read(std::as_writable_bytes(values));
  }
  /// The number of values of the array called `name`.
  std::int64_t count_of(const std::string& name) const {
    for (const json& array : entry_.at("arrays")) {
      if (array.at("name").get<std::string>() == name) return checked_count(array);
    }
    refuse_file(path_, fmt::format("its array {} is missing", name));
  }
  void read(const std::string& name, MatrixView rows) {
    if (begin(name, dtype_name<float>()) != rows.rows * rows.cols) {
      refuse_file(path_, fmt::format("its array {} does not have a row for each node", name));
    }
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      file_.read(
          std::as_writable_bytes(std::span(rows.row(r), static_cast<std::size_t>(rows.cols))));
    }
  }
  /// Skips arrays up to the one called `name`, or all of them if there is none.
  void skip_to(const std::string& name) {
    std::vector<std::byte> ignored(std::size_t{1} << 18);
    while (next_ < entry_.at("arrays").size() &&
           entry_.at("arrays").at(next_).at("name").get<std::string>() != name) {
      const json& array = entry_.at("arrays").at(next_++);
      std::uint64_t left = array.at("count").get<std::uint64_t>() * bytes_of(array);
      while (left > 0) {
        const auto piece = std::min<std::uint64_t>(left, ignored.size());
        file_.read(std::span(ignored).first(piece));
        left -= piece;
      }
    }
  }
  /// Skips what was not read and compares the file with its checksum.
  void check_hash() {
    skip_to("");
    if (hex64(file_.hash()) != entry_.at("xxh64").get<std::string>()) {
      refuse_file(path_, "is damaged: its bytes do not match the checksum in the manifest");
    }
  }

 private:
  static std::uint64_t bytes_of(const json& array) {
    const auto dtype = array.at("dtype").get<std::string>();
    return dtype == "int64" ? 8 : dtype == "uint8" ? 1 : 4;
  }

  std::int64_t begin(const std::string& name, std::string_view dtype) {
    const json& arrays = entry_.at("arrays");
    if (next_ >= arrays.size() || arrays.at(next_).at("name").get<std::string>() != name ||
        arrays.at(next_).at("dtype").get<std::string>() != dtype) {
      refuse_file(path_,
                  fmt::format("its array {} is not where the manifest should list it", name));
    }
    return checked_count(arrays.at(next_++));
  }

  std::int64_t checked_count(const json& array) const {
    const auto count = array.at("count").get<std::uint64_t>();
    if (count > file_.size()) {
      refuse_file(path_,
                  fmt::format("its array {} is too long", array.at("name").get<std::string>()));
    }
    return static_cast<std::int64_t>(count);
  }

  fs::path path_;
  const json& entry_;
  FileReader file_;
  std::size_t next_ = 0;
};

/// Throws Error(bad_input) unless the offsets ascend from 0 to the number of columns, and all
/// columns are below `most`.
template <class Offsets, class Columns>
void check_shard_rows(const fs::path& file, const char* what, const Offsets& offsets,
                      const Columns& columns, std::int64_t rows, std::int64_t most) {
  bool fits = static_cast<std::int64_t>(offsets.size()) == rows + 1 && offsets.front() == 0 &&
              offsets.back() == static_cast<std::int64_t>(columns.size()) &&
              std::is_sorted(offsets.begin(), offsets.end());
  for (const std::int32_t c : columns) fits = fits && c >= 0 && c < most;
  if (!fits) refuse_file(file, fmt::format("its {} contradict themselves", what));
}

/// Throws Error(bad_input) unless there is a finite value for each entry, or none if not
/// `weighted`.
void check_shard_values(const fs::path& file, const Csr& block, bool weighted) {
  const bool fits = block.values.size() == (weighted ? block.columns.size() : 0) &&
                    std::ranges::all_of(block.values, [](float v) { return std::isfinite(v); });
  if (!fits) refuse_file(file, "its edge weights contradict its entries");
}

Adjacency read_adjacency(RankFileReader& file, const std::string& prefix, std::int32_t rows,
                         const ShardHeader& header, bool weighted) {
  Adjacency a;
  const auto read = [&](const std::string& name, auto& values) { file.read(name, values); };
  for_each_adjacency_array(a, prefix, weighted, read);
  FlatPlan plan;
  read(prefix + "peers", plan.peers);
  read(prefix + "send_rows", plan.send_rows);
  a.plan = unflatten(plan, rows, header.rank, header.ranks, file.path());
  read(prefix + "halo_in_cover", a.cover.halo);
  read(prefix + "sent_in_cover", a.cover.sent);
  if (std::cmp_not_equal(a.cover.halo.size(), a.plan.halo_rows) ||
      std::cmp_not_equal(a.cover.sent.size(), a.plan.send_rows())) {
    refuse_file(file.path(), "its covers contradict its halo plan");
  }
  check_shard_rows(file.path(), "entries", a.inner.offsets, a.inner.columns, rows, rows);
  check_shard_rows(file.path(), "halo entries", a.halo.offsets, a.halo.columns, rows,
                   a.plan.halo_rows);
  check_shard_values(file.path(), a.inner, weighted);
  check_shard_values(file.path(), a.halo, weighted);
  return a;
}

LocalLabels read_labels(RankFileReader& file, const std::string& prefix, const RunFacts& facts,
                        std::size_t rows) {
  LocalLabels labels;
  labels.task = facts.task;
  labels.classes = facts.classes;
  for_each_label_array(labels, prefix,
                       [&](const std::string& name, auto& values) { file.read(name, values); });
  labels.target = facts.target;
  const bool multiclass = facts.task == Task::multiclass;
  const bool regression = facts.task == Task::regression;
  const std::size_t indicators =
      multiclass || regression ? 0 : rows * static_cast<std::size_t>(facts.classes);
  bool fits = labels.role.size() == rows && labels.class_of.size() == (multiclass ? rows : 0) &&
              labels.values.size() == (regression ? rows : 0) &&
              labels.indicators.size() == indicators;
  for (std::size_t i = 0; fits && i < rows; ++i) {
    fits = labels.role[i] <= Role::test;
    if (regression)
      fits = fits && (labels.role[i] == Role::none || std::isfinite(labels.values[i]));
    if (multiclass) {
      const bool needed = labels.role[i] != Role::none;
      fits = fits && labels.class_of[i] >= (needed ? 0 : -1) && labels.class_of[i] < facts.classes;
    }
  }
  for (const std::uint8_t indicator : labels.indicators) fits = fits && indicator <= 1;
  if (!fits) refuse_file(file.path(), "its labels and roles contradict the manifest");
  return labels;
}

FeatureMatrix read_shard_features(RankFileReader& file, const std::string& prefix,
                                  const RunFacts& facts, std::int64_t rows, MemoryUse use,
                                  MemoryAccount* account) {
  if (!facts.sparse_features) {
    Matrix dense(rows, facts.feature_cols, use, account);
    file.read(prefix + "features", dense.view());
    return FeatureMatrix(std::move(dense));
  }
  const std::int64_t entries = file.count_of(prefix + "feature_columns");
  SparseBuffers sparse(rows, facts.feature_cols, entries, use, account);
  file.read(prefix + "feature_offsets", sparse.offsets.as<std::int64_t>());
  file.read(prefix + "feature_columns", sparse.columns.as<std::int32_t>());
  file.read(prefix + "feature_values", sparse.values.as<float>());
  check_shard_rows(file.path(), "features", sparse.offsets.as<std::int64_t>(),
                   sparse.columns.as<std::int32_t>(), rows, sparse.cols);
  return FeatureMatrix(std::move(sparse));
}

/// Throws Error(bad_input) unless the facts are ones that a data set may have, of as many nodes as
/// the ranks list.
void check_facts(const RunFacts& facts, const json& manifest, const fs::path& path) {
  const std::string ids =
      scope_prefix(manifest.at("options").value("inductive", false) ? GraphScope::whole
                                                                    : GraphScope::training) +
      "global_ids";
  std::uint64_t listed = 0;
  for (const json& rank : manifest.at("ranks")) {
    for (const json& array : rank.at("arrays")) {
      if (array.at("name") == ids) listed += array.at("count").get<std::uint64_t>();
    }
  }
  const auto counts = {facts.training_nodes, facts.validation_nodes, facts.test_nodes};
  const std::size_t cols = facts.statistics.mean.size();
  const bool fits =
      facts.nodes > 0 && std::cmp_equal(facts.nodes, listed) && facts.classes > 0 &&
      facts.classes <= kMaxClasses && facts.feature_cols > 0 &&
      std::ranges::all_of(counts, [](std::int64_t count) { return count >= 0; }) &&
      std::ranges::all_of(facts.training_of_class, [](std::int64_t count) { return count >= 0; }) &&
      (cols == 0 || std::cmp_equal(cols, facts.feature_cols)) &&
      cols == facts.statistics.deviation.size();
  if (!fits) refuse_file(path, "its numbers contradict each other");
}

RunFacts interpret_facts(const json& manifest, const fs::path& path) {
  RunFacts facts;
  facts.name = manifest.at("name").get<std::string>();
  facts.nodes = manifest.at("nodes").get<std::int64_t>();
  facts.directed = manifest.at("directed").get<bool>();
  if (manifest.contains("edge_weights")) {
    const json& weights = manifest.at("edge_weights");
    facts.weights = {weights.at("least").get<float>(), weights.at("most").get<float>(),
                     weights.at("source").get<NodeId>(), weights.at("target").get<NodeId>()};
  }
  facts.training_nodes = manifest.at("training_nodes").get<std::int64_t>();
  facts.training_of_class = manifest.at("training_of_class").get<std::vector<std::int64_t>>();
  facts.validation_nodes = manifest.at("validation_nodes").get<std::int64_t>();
  facts.test_nodes = manifest.at("test_nodes").get<std::int64_t>();
  facts.validates_both_classes = manifest.at("validation_has_both_classes").get<bool>();
  const json& labels = manifest.at("labels");
  const auto task = labels.at("task").get<std::string>();
  if (!find_task(task)) refuse_file(path, fmt::format("has the unknown task {}", task));
  facts.task = *find_task(task);
  facts.classes = labels.at("classes").get<std::int32_t>();
  facts.class_names = labels.at("class_names").get<std::vector<std::string>>();
  const json& statistics = manifest.at("statistics");
  facts.statistics = {statistics.at("mean").get<std::vector<float>>(),
                      statistics.at("deviation").get<std::vector<float>>()};
  if (facts.task == Task::regression) {
    facts.target = {manifest.at("target").at("mean").get<double>(),
                    manifest.at("target").at("deviation").get<double>()};
  }
  facts.feature_cols = manifest.at("features").at("cols").get<std::int64_t>();
  facts.sparse_features = manifest.at("features").at("sparse").get<bool>();
  facts.ranks = static_cast<int>(manifest.at("ranks").size());
  facts.quality = partition_from_json(manifest.at("partition"));
  facts.partition_hash = manifest.at("partition_hash").get<std::string>();
  facts.covers = covers_from_json(manifest.at("covers"));
  check_facts(facts, manifest, path);
  return facts;
}

}  // namespace

json read_shard_manifest(const fs::path& directory) {
  json manifest = read_manifest_file(directory, kShardManifest);
  const fs::path path = directory / kManifestFile;
  try {
    interpret_facts(manifest, path);
    if (!manifest.at("graph_hash").is_string() || !manifest.at("identity").is_string()) {
      refuse_file(path, "cannot be interpreted: a field is of another type");
    }
    manifest.at("options").at("split");
  } catch (const json::exception& error) {
    refuse_file(path, fmt::format("cannot be interpreted: {}", reason_of(error)));
  }
  return manifest;
}

bool is_shards(const fs::path& directory) {
  std::error_code ignored;
  if (!fs::is_regular_file(directory / kManifestFile, ignored)) return false;
  try {
    const auto file = MappedFile::open(directory / kManifestFile);
    if (nests_too_deeply(file->text())) return false;
    const json manifest = try_parse_json<json>(file->text());
    return manifest.is_object() && manifest.value("format", json()) == kShardManifest.format;
  } catch (const Error&) {
    return false;
  }
}

json shaping_options_of(const fs::path& directory) {
  return read_shard_manifest(directory).at("options");
}

ShardPlan::ShardPlan(fs::path directory, const TrainOptions& options, PlanPurpose purpose)
    : RunPlan(options, std::move(purpose)),
      directory_(std::move(directory)),
      manifest_(read_shard_manifest(directory_)) {
  const fs::path path = directory_ / kManifestFile;
  try {
    facts_ = interpret_facts(manifest_, path);
    options_from_json(manifest_.at("options"), path.string(), options_);
    identity_ = std::stoull(manifest_.at("identity").get<std::string>(), nullptr, 16);
    for (const json& entry : manifest_.at("ranks")) {
      stored_bytes_.push_back(entry.at("bytes").get<std::int64_t>());
    }
  } catch (const std::exception& error) {
    refuse_file(path, fmt::format("cannot be interpreted: {}", reason_of(error)));
  }
  if (facts_.ranks != options_.partition.parts) refuse_file(path, "lists another number of ranks");
  const auto counts =
      facts_.task == Task::multiclass ? static_cast<std::size_t>(facts_.classes) : 0;
  if (facts_.training_of_class.size() != counts) refuse_file(path, "counts other classes");
  use(purpose_);
  resolve_metric_and_check();
}

void ShardPlan::use(const PlanPurpose& purpose) {
  purpose_.exchange = purpose.exchange;
  resolve_exchange();
  // Shards hold targets in their own units.
  if (purpose.target) facts_.target = *purpose.target;
  if (options_.normalize != Normalization::standard || purpose.statistics.empty() ||
      purpose.statistics == facts_.statistics) {
    return;
  }
  throw_error(ErrorCode::mismatch,
              "{}: the features in these shards are normalised with other statistics than those "
              "that the weights were trained with: cut the data set again with --init-from",
              (directory_ / kManifestFile).string());
}

std::string ShardPlan::dataset_hash() const {
  return manifest_.at("graph_hash").get<std::string>();
}

std::int64_t ShardPlan::stored_bytes(int rank) const {
  return stored_bytes_.at(static_cast<std::size_t>(rank));
}

RankData ShardPlan::load(int rank, GraphScope scope, MemoryUse use, MemoryAccount* account) const {
  ShardHeader header;
  header.identity = identity_;
  header.rank = rank;
  header.ranks = facts_.ranks;
  const std::string prefix = scope_prefix(options_.inductive ? scope : GraphScope::training);
  try {
    RankFileReader file(directory_, manifest_.at("ranks").at(static_cast<std::size_t>(rank)),
                        header);
    file.skip_to(prefix + "global_ids");
    RankData data;
    Shard& shard = data.shard;
    shard.rank = rank;
    shard.ranks = facts_.ranks;
    file.read(prefix + "global_ids", shard.global_ids);
    file.read(prefix + "in_degree", shard.in_degree);
    const auto rows = static_cast<std::int32_t>(shard.global_ids.size());
    shard.inner_rows = rows;
    bool fits = shard.in_degree.size() == shard.global_ids.size();
    for (const std::int64_t id : shard.global_ids) fits = fits && id >= 0 && id < facts_.nodes;
    if (!fits) refuse_file(file.path(), "its node numbers contradict the manifest");
    const bool weighted = facts_.weights.has_value();
    shard.in = read_adjacency(file, prefix + "in_", rows, header, weighted);
    if (facts_.directed) shard.out = read_adjacency(file, prefix + "out_", rows, header, weighted);
    data.labels = read_labels(file, prefix, facts_, shard.global_ids.size());
    data.features = read_shard_features(file, prefix, facts_, rows, use, account);
    file.check_hash();
    return data;
  } catch (const json::exception& error) {
    refuse_file(directory_ / kManifestFile,
                fmt::format("cannot be interpreted: {}", reason_of(error)));
  }
}

}  // namespace heliograph
