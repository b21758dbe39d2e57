#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "heliograph/dataset.hpp"
#include "heliograph/log.hpp"

namespace heliograph {

/// The owner of each node.
struct Partition {
  int parts = 1;
  std::vector<std::int32_t> owner;  ///< The part that owns each node, in [0, parts).
};

enum class Partitioner : std::uint8_t { metis, contiguous, random, file };
enum class MetisObjective : std::uint8_t { edge_cut, volume };

struct PartitionOptions {
  int parts = 1;
  Partitioner partitioner = Partitioner::metis;
  MetisObjective objective = MetisObjective::edge_cut;
  std::filesystem::path file;  ///< For Partitioner::file: what read_partition reads.
  std::uint64_t seed = 0;
  /// METIS only: balance the training nodes as well as all nodes (a second constraint). With fewer
  /// than 10 training nodes a part the constraint is dropped with a warning.
  bool balance_train = false;
};

/// Exact counts that measure the cost of a partition.
struct PartitionQuality {
  std::int64_t edge_cut = 0;  ///< CSR entries between two parts, halved if undirected.
  /// The sum of halo nodes over ranks: the number of rows in one exchange.
  std::int64_t communication_volume = 0;
  std::vector<std::int64_t> inner_nodes;  ///< Inner nodes of each rank.
  std::vector<std::int64_t> halo_nodes;   ///< Halo nodes of each rank.
  std::vector<std::int64_t> inner_edges;  ///< CSR entries of each rank between two inner nodes.
  std::vector<std::int64_t> halo_edges;   ///< CSR entries of each rank from a halo node.
  double node_balance = 1.0;              ///< The nodes of the largest part over the mean.
  double edge_balance = 1.0;              ///< The CSR entries of the largest part over the mean.
};

/// What an exchange sends with smallest covers of the edges between parts, all ranks together.
struct CoverCounts {
  std::int64_t boundary_rows = 0;  ///< The rows that it sends without covers.
  std::int64_t rows = 0;           ///< Rows of nodes.
  std::int64_t sums = 0;           ///< Partial sums.
  std::int64_t summed = 0;         ///< The rows that are added up in these sums.
};

/// Cuts `graph` into `options.parts` parts, with METIS (Karypis and Kumar, 1998) by default. The
/// result depends only on the graph, the options and `split`, which `balance_train` needs and which
/// is not read without it. Every part has at least one node: an empty part gets one, with a
/// warning. METIS cuts a directed graph as if every edge went both ways. Throws Error: usage (parts
/// < 1, parts > nodes, `balance_train` without a split), bad_input (a partition file that does not
/// fit), resource (more nodes or edges than METIS's 32-bit indices can represent; checked before
/// memory is allocated), mismatch (`split` belongs to another graph).
Partition make_partition(const Graph& graph, const PartitionOptions& options,
                         const LogCallback& log = {}, const Split* split = nullptr);

/// Counts the cost of a partition. Throws Error: mismatch (a partition of another graph), bad_input
/// (an owner out of range, or a graph whose arrays do not fit), resource (2^31 nodes or more).
PartitionQuality measure_partition(const Graph& graph, const Partition& partition);

/// Reads the owners of all nodes, in node order. The name of the file decides its form: *.npy is an
/// array of integers; partition_meta.json is DGL's, whose owners are in _N.txt beside it; any other
/// file is METIS's, with one owner a line. Throws Error(bad_input) that names the file, and the
/// line or node if one is at fault, if there are not `nodes` owners, an owner is not in [0, parts),
/// or a part has no node.
Partition read_partition(const std::filesystem::path& file, std::int64_t nodes, int parts);
/// Writes a partition in the form that the name of the file decides, as above. Throws Error: usage
/// (the file cannot be created), resource (disk full).
void write_partition(const Partition& partition, const std::filesystem::path& file);

/// The XXH64 of the number of parts and all owners, as 16 hexadecimal digits.
std::string partition_hash(const Partition& partition);

}  // namespace heliograph
