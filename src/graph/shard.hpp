#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/csr.hpp"
#include "core/noise.hpp"
#include "heliograph/dataset.hpp"
#include "heliograph/partition.hpp"

namespace heliograph {

/// Rows that one peer is sent, each a sum of inner rows: a small CSR. Every sum has one entry
/// today, and then no offsets are stored.
struct BoundaryRows {
  std::vector<std::int32_t> entries;  ///< Inner rows; where no offsets are stored, ascending.
  std::vector<std::int32_t> offsets;  ///< rows + 1 places in `entries`, or none.

  std::size_t rows() const { return offsets.empty() ? entries.size() : offsets.size() - 1; }
  bool has_sums() const { return !offsets.empty(); }
};

/// Whose rows travel to whom. Halo rows are numbered by owner rank, then by the owner's local id,
/// so each peer's rows are one run.
struct HaloPlan {
  struct Peer {
    int rank = 0;
    BoundaryRows sent;            ///< What the peer needs.
    std::int32_t halo_begin = 0;  ///< The peer's run of this rank's halo rows.
    std::int32_t halo_end = 0;
  };
  std::int32_t inner_rows = 0;
  std::int32_t halo_rows = 0;
  std::vector<Peer> peers;  ///< By rank, those with something to send or to receive.

  std::int64_t send_rows() const;
};

/// One sparse operator of a rank: the columns that it owns, and those in its halo.
struct Adjacency {
  Csr inner;      ///< inner rows x inner rows.
  Csr halo;       ///< inner rows x halo rows.
  HaloPlan plan;  ///< Moves the halo columns' rows here.
};

/// What one rank knows of a graph's structure.
struct Shard {
  int rank = 0;
  int ranks = 1;
  std::int32_t inner_rows = 0;
  std::vector<std::int64_t> global_ids;  ///< By inner row: the user's node number.
  std::vector<std::int64_t> in_degree;   ///< By inner row, over the whole (induced) graph.
  Adjacency in;                          ///< A: row v sums its in-neighbours.
  std::optional<Adjacency> out;          ///< A^T; absent for undirected graphs, whose A^T is A.

  /// The operator that a pass multiplies with: A forward, A^T backward.
  const Adjacency& adjacency(Direction direction) const {
    return direction == Direction::forward || !out ? in : *out;
  }
};

/// Where every node of a graph lives: shared by the ranks while they build their shards.
class NodeIndex {
 public:
  /// `members`: ascending nodes of an induced subgraph; null for the whole graph. `order`: every
  /// node of the graph once (see order_nodes), read only here; a rank numbers its nodes in this
  /// order, and by id if it is empty. The graph and the partition must outlive the index.
  /// Throws Error: usage (members or order that do not fit), mismatch, bad_input, resource.
  NodeIndex(const Graph& graph, const Partition& partition,
            const std::vector<NodeId>* members = nullptr, std::span<const NodeId> order = {});

  const Graph& graph() const { return graph_; }
  int ranks() const { return static_cast<int>(nodes_of_.size()); }
  bool contains(NodeId v) const { return local_of_[static_cast<std::size_t>(v)] >= 0; }
  int owner(NodeId v) const { return partition_.owner[static_cast<std::size_t>(v)]; }
  /// -1 if the node is not a member.
  std::int32_t local(NodeId v) const { return local_of_[static_cast<std::size_t>(v)]; }
  /// Nodes of a rank, in local order.
  std::span<const NodeId> nodes(int rank) const {
    return nodes_of_[static_cast<std::size_t>(rank)];
  }

 private:
  const Graph& graph_;
  const Partition& partition_;
  std::vector<std::int32_t> local_of_;
  std::vector<std::vector<NodeId>> nodes_of_;
};

/// Throws Error(resource) if there are more nodes than a NodeId can name.
void check_node_numbers(const Graph& graph);

/// Throws Error(mismatch) if the partition is of another number of nodes.
void check_partition_size(const Graph& graph, const Partition& partition);

/// The part of a node. Throws Error(bad_input) if it is none of the partition's.
int checked_owner(const Partition& partition, NodeId v);

/// The transpose of a directed graph (out-neighbours); throws Error(resource) on overflow.
Graph transpose(const Graph& graph);

/// Builds rank's shard. `transposed` is transpose(index.graph()) for directed graphs, else null.
/// A rank without nodes, or without halo, is an ordinary case.
Shard build_shard(const NodeIndex& index, int rank, const Graph* transposed);

}  // namespace heliograph
