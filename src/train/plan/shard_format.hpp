#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "graph/io/manifest_file.hpp"
#include "heliograph/dataset.hpp"
#include "train/plan/run_plan.hpp"

// What the writer and the reader of shard directories share. A shard directory holds manifest.json,
// manifest.xxh64 and one file for each rank (docs/formats.md).

namespace heliograph {

/// The first bytes of a rank's file, which say to which shards it belongs.
struct ShardHeader {
  char magic[8] = {'H', 'E', 'L', 'I', 'O', 'S', 'H', 'D'};
  std::uint64_t identity = 0;  ///< Hash of graph, partition and the options fixed in the shards.
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
};
static_assert(sizeof(ShardHeader) == 24);

/// The file name of a rank, such as "rank-0002.shard".
std::string shard_file_name(int rank);

/// The options that are fixed in shards, by flag name. Training takes them from the manifest.
const std::vector<std::string>& shard_option_names();

/// The options that say how the graph was cut. Runs report them; they are no part of the identity,
/// which is that of any shards with the same partition.
const std::vector<std::string>& cut_option_names();

/// A HaloPlan as two arrays.
struct FlatPlan {
  std::vector<std::int32_t> peers;  ///< For each peer: rank, halo begin, halo end, rows to send.
  std::vector<std::int32_t> send_rows;  ///< The rows to send to the first peer, then the next, ...
};
FlatPlan flatten(const HaloPlan& plan);
/// Throws Error(bad_input) that names `file` if the arrays are not those of a plan.
HaloPlan unflatten(const FlatPlan& flat, std::int32_t inner_rows, int rank, int ranks,
                   const std::filesystem::path& file);

/// Calls visit(name, vector) for each array of an adjacency, without those of its plan. `weighted`:
/// whether entries have values.
template <class Matrix, class Visit>
void for_each_adjacency_array(Matrix& a, const std::string& prefix, bool weighted, Visit&& visit) {
  visit(prefix + "inner_offsets", a.inner.offsets);
  visit(prefix + "inner_columns", a.inner.columns);
  if (weighted) visit(prefix + "inner_values", a.inner.values);
  visit(prefix + "halo_offsets", a.halo.offsets);
  visit(prefix + "halo_columns", a.halo.columns);
  if (weighted) visit(prefix + "halo_values", a.halo.values);
}

/// Calls visit(name, vector) for each array of a rank's labels.
template <class Labels, class Visit>
void for_each_label_array(Labels& labels, const std::string& prefix, Visit&& visit) {
  if (labels.task == Task::multiclass) {
    visit(prefix + "class_of", labels.class_of);
  } else if (labels.task == Task::regression) {
    visit(prefix + "values", labels.values);
  } else {
    visit(prefix + "indicators", labels.indicators);
  }
  visit(prefix + "role", labels.role);
}

/// The prefix of array names of a scope.
inline std::string scope_prefix(GraphScope scope) {
  return scope == GraphScope::training ? "" : "whole_";
}

}  // namespace heliograph
