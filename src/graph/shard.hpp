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

/// The rows that a rank sends to and receives from each peer. Halo rows are numbered by owner rank,
/// then by the owner's local id, so the rows from one peer are consecutive.
struct HaloPlan {
  struct Peer {
    int rank = 0;
    std::vector<std::int32_t> sent;  ///< The inner rows that are sent to the peer, ascending.
    std::int32_t halo_begin = 0;     ///< The first halo row that the peer sends.
    std::int32_t halo_end = 0;       ///< One past the last halo row that the peer sends.
    std::int32_t replaced = 0;       ///< The boundary rows that partial sums replace.
  };
  std::int32_t inner_rows = 0;
  std::int32_t halo_rows = 0;
  std::vector<Peer> peers;  ///< The ranks to send to or to receive from, ascending.

  /// The number of rows that are sent to all peers together.
  std::int64_t send_rows() const;
};

/// Sums of neighbours that are made by the rank that owns the neighbours (docs/covers.md).
struct PartialSums {
  Csr made;       ///< Sums that this rank makes x inner rows.
  Csr received;   ///< Inner rows x sums that other ranks make for this one; all values are 1.
  HaloPlan plan;  ///< The plan that brings the sums; its inner rows are the sums made.
  std::vector<std::int64_t> ids;  ///< A number of each sum made, see `id`.

  /// The number of a sum that `rank` makes for a node, which keys its noise. Nodes have 32 bits.
  static std::int64_t id(int rank, std::int64_t node) {
    return (std::int64_t{rank} + 1) << 32 | node;
  }
  /// The node that a sum is for.
  static std::int64_t node_of(std::int64_t id) { return id & 0xffffffff; }
};

/// One rank's rows of a sparse operator, in blocks: columns of inner nodes, of halo nodes and, with
/// covers, of partial sums.
struct Adjacency {
  Csr inner;      ///< inner rows x inner rows.
  Csr halo;       ///< inner rows x halo rows.
  HaloPlan plan;  ///< The plan that brings the rows of halo nodes to this rank.
  /// If set, entries of halo nodes that are in no cover are in these sums instead of `halo`.
  std::optional<PartialSums> sums = {};
  /// 1 for each halo row and for each row sent, of one peer after the other, whose node is in the
  /// cover of the edges between both ranks. Empty unless covers were found.
  struct Cover {
    std::vector<std::uint8_t> halo, sent;
  } cover = {};
  /// The user's node number of each halo row. Empty unless something needs it.
  std::vector<std::int64_t> halo_ids = {};
};

/// One rank's part of a graph's structure.
struct Shard {
  int rank = 0;
  int ranks = 1;
  std::int32_t inner_rows = 0;
  std::vector<std::int64_t> global_ids;  ///< The user's node number of each inner row.
  std::vector<std::int64_t> in_degree;   ///< In-degree of each inner row in the (induced) graph.
  Adjacency in;                          ///< A, whose row v sums the in-neighbours of v.
  std::optional<Adjacency> out;          ///< A^T; absent for undirected graphs, where it equals A.
  /// Halo rows x inner rows: the transpose of `in.halo`. Empty unless something needs it.
  Csr halo_sources = {};

  /// The operator of a pass: A forward, A^T backward.
  const Adjacency& adjacency(Direction direction) const {
    return direction == Direction::forward || !out ? in : *out;
  }
  /// The plans of all exchanges: of node rows and, with covers, of partial sums.
  std::vector<const HaloPlan*> plans() const;
  /// The plan of the node rows or of the partial sums of a pass.
  const HaloPlan& plan(Direction direction, bool partial_sums) const {
    const Adjacency& a = adjacency(direction);
    return partial_sums ? a.sums->plan : a.plan;
  }
};

/// The owner and local number of every node of a graph. Ranks share it while they build their
/// shards; it is immutable.
class NodeIndex {
 public:
  /// `members`: the ascending nodes of an induced subgraph, or null for the whole graph. `order`: a
  /// permutation of the graph's nodes (see order_nodes) in which ranks number their nodes, or empty
  /// for the order of ids; only the constructor reads it. The graph and the partition must outlive
  /// the index. Throws Error: usage (members or order that do not fit), mismatch, bad_input,
  /// resource.
  NodeIndex(const Graph& graph, const Partition& partition,
            const std::vector<NodeId>* members = nullptr, std::span<const NodeId> order = {});

  const Graph& graph() const { return graph_; }
  int ranks() const { return static_cast<int>(nodes_of_.size()); }
  bool contains(NodeId v) const { return local_of_[static_cast<std::size_t>(v)] >= 0; }
  int owner(NodeId v) const { return partition_.owner[static_cast<std::size_t>(v)]; }
  /// The node's number on its owner, or -1 if the node is not a member.
  std::int32_t local(NodeId v) const { return local_of_[static_cast<std::size_t>(v)]; }
  /// The nodes that a rank owns, in local order.
  std::span<const NodeId> nodes(int rank) const {
    return nodes_of_[static_cast<std::size_t>(rank)];
  }

 private:
  const Graph& graph_;
  const Partition& partition_;
  std::vector<std::int32_t> local_of_;
  std::vector<std::vector<NodeId>> nodes_of_;
};

/// The transpose of a block with `columns` columns, without values. Rows of the result ascend.
Csr transpose(const Csr& block, std::int64_t columns);

/// Throws Error(resource) if there are more nodes than a NodeId can name.
void check_node_numbers(const Graph& graph);

/// Throws Error(mismatch) if the partition and the graph differ in the number of nodes.
void check_partition_size(const Graph& graph, const Partition& partition);

/// The part that owns a node. Throws Error(bad_input) if the partition has no such part.
int checked_owner(const Partition& partition, NodeId v);

/// The transpose of a directed graph, whose rows list out-neighbours. Throws Error(resource) if
/// node numbers overflow.
Graph transpose(const Graph& graph);

/// Builds a rank's shard, which may have no nodes or no halo. `transposed` is
/// transpose(index.graph()) for a directed graph, else null. Throws Error: usage, resource.
Shard build_shard(const NodeIndex& index, int rank, const Graph* transposed);

}  // namespace heliograph
