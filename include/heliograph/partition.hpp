#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "heliograph/dataset.hpp"
#include "heliograph/log.hpp"

namespace heliograph {

/// Which rank owns each node.
struct Partition {
  int parts = 1;
  std::vector<std::int32_t> owner;  ///< owner[node], in [0, parts).
};

enum class Partitioner : std::uint8_t { metis, contiguous, random, file };
enum class MetisObjective : std::uint8_t { edge_cut, volume };

struct PartitionOptions {
  int parts = 1;
  Partitioner partitioner = Partitioner::metis;
  MetisObjective objective = MetisObjective::edge_cut;
  std::filesystem::path file;  ///< With Partitioner::file: a METIS `.part.K` file.
  std::uint64_t seed = 0;
  /// METIS only: also balance the training nodes (a second constraint). Null: nodes only. With
  /// fewer than 10 training nodes a part the constraint is dropped, with a warning to the log.
  const Split* balance_split = nullptr;
};

/// What a partition costs. Exact counts.
struct PartitionQuality {
  std::int64_t edge_cut = 0;              ///< CSR entries whose ends differ, halved if undirected.
  std::int64_t communication_volume = 0;  ///< Sum over ranks of halo nodes: rows of one exchange.
  std::vector<std::int64_t> inner_nodes;  ///< By rank.
  std::vector<std::int64_t> halo_nodes;   ///< By rank.
  std::vector<std::int64_t> inner_edges;  ///< CSR entries with both ends on the rank.
  std::vector<std::int64_t> halo_edges;   ///< CSR entries whose source is a halo node.
  double node_balance = 1.0;              ///< Largest part over mean part, in nodes.
  double edge_balance = 1.0;              ///< Likewise, in CSR entries of the owned rows.
};

/// Cuts `graph` into `options.parts` parts. Deterministic for the same graph and options.
/// Every part has at least one node: parts that a partitioner leaves empty are given one, with a
/// warning to the log. METIS cuts a directed graph as if every edge went both ways.
/// Throws Error: usage (parts < 1, parts > nodes), bad_input (a partition file that does not
/// fit), resource (more nodes or edges than METIS's 32-bit indices hold; checked before
/// anything is allocated), mismatch (`balance_split` is of another graph).
Partition make_partition(const Graph& graph, const PartitionOptions& options,
                         const LogCallback& log = {});

/// Throws Error: mismatch (a partition of another graph), bad_input (an owner out of range).
PartitionQuality measure_partition(const Graph& graph, const Partition& partition);

/// Reads and writes METIS's text format: one owner a line, in node order. Reading throws
/// Error(bad_input) that names the file, and the line where one is at fault, if the lines are not
/// `nodes` in number, an owner is not in [0, parts), or a part has no node.
Partition read_partition(const std::filesystem::path& file, std::int64_t nodes, int parts);
void write_partition(const Partition& partition, const std::filesystem::path& file);

/// 16 hexadecimal digits (XXH64) over parts and owners.
std::string partition_hash(const Partition& partition);

}  // namespace heliograph
