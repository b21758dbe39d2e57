#include "graph/shard.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/throw_error.hpp"
#include "graph/rows.hpp"

namespace heliograph {
namespace {

constexpr std::int32_t kNotLocal = -1;

/// Returns `count`, or throws Error(resource) if 32-bit local row numbers cannot count that far.
std::int32_t local_count(std::size_t count, const char* what, int rank) {
  if (count > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw_error(ErrorCode::resource,
                "rank {} would hold {} {}, more than 32-bit local numbers can name", rank, count,
                what);
  }
  return static_cast<std::int32_t>(count);
}

/// The two blocks of an adjacency while they are built.
struct AdjacencyBlocks {
  Csr inner;
  Csr halo;
  std::vector<std::int32_t> halo_of;  ///< The halo row of each node of the graph, or kNotLocal.
};

/// Counts the entries of each block's rows and marks halo nodes with row 0.
AdjacencyBlocks count_entries(const NodeIndex& index, int rank, const Graph& rows) {
  const std::span<const NodeId> nodes = index.nodes(rank);
  AdjacencyBlocks blocks;
  blocks.inner.offsets.resize(nodes.size() + 1);
  blocks.halo.offsets.resize(nodes.size() + 1);
  blocks.halo_of.assign(at(rows.nodes), kNotLocal);
  std::int64_t inner = 0, halo = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const NodeId u : neighbours_of(rows, nodes[i])) {
      if (!index.contains(u)) continue;
      if (index.owner(u) == rank) {
        ++inner;
      } else {
        ++halo;
        blocks.halo_of[at(u)] = 0;
      }
    }
    blocks.inner.offsets[i + 1] = inner;
    blocks.halo.offsets[i + 1] = halo;
  }
  return blocks;
}

/// Numbers halo nodes by owner, then by the owner's local order. Returns for each rank the first
/// halo row of the nodes that it owns, and at the end the number of halo rows.
std::vector<std::int32_t> number_halo(const NodeIndex& index, int rank,
                                      std::vector<std::int32_t>& halo_of) {
  std::vector<std::int32_t> run_begin(at(index.ranks()) + 1, 0);
  std::size_t next = 0;
  for (int owner = 0; owner < index.ranks(); ++owner) {
    if (owner != rank) {
      for (const NodeId u : index.nodes(owner)) {
        if (halo_of[at(u)] == kNotLocal) continue;
        halo_of[at(u)] = static_cast<std::int32_t>(next++);
      }
    }
    run_begin[at(owner) + 1] = local_count(next, "halo nodes", rank);
  }
  return run_begin;
}

void fill_columns(const NodeIndex& index, int rank, const Graph& rows, AdjacencyBlocks& blocks) {
  const std::span<const NodeId> nodes = index.nodes(rank);
  const bool weighted = !rows.edge_weights.empty();
  for (Csr* block : {&blocks.inner, &blocks.halo}) {
    block->columns.resize(at(block->offsets.back()));
    if (weighted) block->values.resize(block->columns.size());
  }
  std::size_t i = 0, h = 0;
  const auto put = [&](Csr& block, std::size_t& next, std::int32_t column, std::int64_t entry) {
    block.columns[next] = column;
    if (weighted) block.values[next] = rows.edge_weights[at(entry)];
    ++next;
  };
  EntrySorter sorter;
  for (const NodeId v : nodes) {
    const std::size_t inner_begin = i, halo_begin = h;
    for (std::int64_t e = rows.offsets[at(v)]; e < rows.offsets[at(v) + 1]; ++e) {
      const NodeId u = rows.neighbours[at(e)];
      if (!index.contains(u)) continue;
      if (index.owner(u) == rank) {
        put(blocks.inner, i, index.local(u), e);
      } else {
        put(blocks.halo, h, blocks.halo_of[at(u)], e);
      }
    }
    sorter.sort(blocks.inner.columns, blocks.inner.values, inner_begin, i);
    sorter.sort(blocks.halo.columns, blocks.halo.values, halo_begin, h);
  }
}

/// The inner rows that this rank sends to each other rank. A node's row goes to every rank that
/// owns a neighbour of the node in `readers`, the transpose of the rows' graph.
std::vector<std::vector<std::int32_t>> rows_to_send(const NodeIndex& index, int rank,
                                                    const Graph& readers) {
  std::vector<std::vector<std::int32_t>> send(at(index.ranks()));
  const std::span<const NodeId> nodes = index.nodes(rank);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto local = static_cast<std::int32_t>(i);
    for (const NodeId reader : neighbours_of(readers, nodes[i])) {
      if (!index.contains(reader) || index.owner(reader) == rank) continue;
      auto& list = send[at(index.owner(reader))];
      if (list.empty() || list.back() != local) list.push_back(local);
    }
  }
  return send;
}

Adjacency build_adjacency(const NodeIndex& index, int rank, const Graph& rows,
                          const Graph& readers) {
  AdjacencyBlocks blocks = count_entries(index, rank, rows);
  const std::vector<std::int32_t> run_begin = number_halo(index, rank, blocks.halo_of);
  fill_columns(index, rank, rows, blocks);

  Adjacency adjacency;
  adjacency.inner = std::move(blocks.inner);
  adjacency.halo = std::move(blocks.halo);
  HaloPlan& plan = adjacency.plan;
  plan.inner_rows = local_count(index.nodes(rank).size(), "nodes", rank);
  plan.halo_rows = run_begin.back();
  std::vector<std::vector<std::int32_t>> send = rows_to_send(index, rank, readers);
  for (int peer = 0; peer < index.ranks(); ++peer) {
    const std::int32_t begin = run_begin[at(peer)], end = run_begin[at(peer) + 1];
    if (begin == end && send[at(peer)].empty()) continue;
    send[at(peer)].shrink_to_fit();
    plan.peers.push_back({peer, std::move(send[at(peer)]), begin, end});
  }
  return adjacency;
}

void check_members(const Graph& graph, const std::vector<NodeId>& members) {
  for (std::size_t i = 0; i < members.size(); ++i) {
    const NodeId v = members[i];
    if (v < 0 || v >= graph.nodes || (i > 0 && v <= members[i - 1])) {
      throw_error(
          ErrorCode::usage,
          "member {} of the induced subgraph, {}, is out of range or not in ascending order", i, v);
    }
  }
}

/// Refuses an order that is not a permutation of the graph's nodes.
void check_order(const Graph& graph, std::span<const NodeId> order) {
  if (static_cast<std::int64_t>(order.size()) != graph.nodes) {
    throw_error(ErrorCode::usage, "the order of nodes has {} entries but the graph has {} nodes",
                order.size(), graph.nodes);
  }
  std::vector<bool> seen(order.size(), false);
  for (const NodeId v : order) {
    if (v < 0 || v >= graph.nodes || seen[at(v)]) {
      throw_error(ErrorCode::usage,
                  "the order of nodes lists node {} twice, or node {} is out of range", v, v);
    }
    seen[at(v)] = true;
  }
}

}  // namespace

void check_node_numbers(const Graph& graph) {
  if (graph.nodes <= std::numeric_limits<NodeId>::max()) return;
  throw_error(ErrorCode::resource, "the graph has {} nodes, more than 32-bit node numbers can name",
              graph.nodes);
}

void check_partition_size(const Graph& graph, const Partition& partition) {
  if (static_cast<std::int64_t>(partition.owner.size()) == graph.nodes) return;
  throw_error(ErrorCode::mismatch, "the partition has {} nodes but the graph has {}",
              partition.owner.size(), graph.nodes);
}

int checked_owner(const Partition& partition, NodeId v) {
  const int owner = partition.owner[at(v)];
  if (owner >= 0 && owner < partition.parts) return owner;
  throw_error(ErrorCode::bad_input, "node {} belongs to part {} of {}", v, owner, partition.parts);
}

std::int64_t HaloPlan::send_rows() const {
  std::int64_t rows = 0;
  for (const Peer& peer : peers) rows += static_cast<std::int64_t>(peer.sent.size());
  return rows;
}

std::vector<const HaloPlan*> Shard::plans() const {
  std::vector<const HaloPlan*> all;
  for (const Direction direction : {Direction::forward, Direction::backward}) {
    const Adjacency& a = adjacency(direction);
    all.push_back(&a.plan);
    if (a.sums) all.push_back(&a.sums->plan);
  }
  return all;
}

NodeIndex::NodeIndex(const Graph& graph, const Partition& partition,
                     const std::vector<NodeId>* members, std::span<const NodeId> order)
    : graph_(graph), partition_(partition) {
  check_node_numbers(graph);
  check_partition_size(graph, partition);
  if (partition.parts < 1) throw_error(ErrorCode::usage, "parts = {} is below 1", partition.parts);
  if (members != nullptr) check_members(graph, *members);
  if (!order.empty()) check_order(graph, order);

  local_of_.assign(at(graph.nodes), kNotLocal);
  nodes_of_.resize(at(partition.parts));
  const auto add = [&](NodeId v) {
    auto& nodes = nodes_of_[at(checked_owner(partition, v))];
    local_of_[at(v)] = static_cast<std::int32_t>(nodes.size());
    nodes.push_back(v);
  };
  if (!order.empty()) {
    std::vector<bool> wanted(order.size(), members == nullptr);
    if (members != nullptr) {
      for (const NodeId v : *members) wanted[at(v)] = true;
    }
    for (const NodeId v : order) {
      if (wanted[at(v)]) add(v);
    }
  } else if (members != nullptr) {
    for (const NodeId v : *members) add(v);
  } else {
    for (NodeId v = 0; v < graph.nodes; ++v) add(v);
  }
}

Csr transpose(const Csr& block, std::int64_t columns) {
  Csr result;
  result.offsets.assign(static_cast<std::size_t>(columns) + 1, 0);
  for (const std::int32_t c : block.columns) ++result.offsets[static_cast<std::size_t>(c) + 1];
  for (std::size_t c = 0; c < static_cast<std::size_t>(columns); ++c) {
    result.offsets[c + 1] += result.offsets[c];
  }
  result.columns.resize(block.columns.size());
  std::vector<std::int64_t> next(result.offsets.begin(), result.offsets.end());
  for (std::size_t r = 0; r + 1 < block.offsets.size(); ++r) {
    for (std::int64_t e = block.offsets[r]; e < block.offsets[r + 1]; ++e) {
      const auto c = static_cast<std::size_t>(block.columns[static_cast<std::size_t>(e)]);
      result.columns[static_cast<std::size_t>(next[c]++)] = static_cast<std::int32_t>(r);
    }
  }
  return result;
}

Graph transpose(const Graph& graph) {
  check_node_numbers(graph);
  std::vector<std::int64_t> offsets(at(graph.nodes) + 1, 0);
  for (const NodeId u : graph.neighbours) ++offsets[at(u) + 1];
  for (std::size_t i = 1; i < offsets.size(); ++i) offsets[i] += offsets[i - 1];

  // Rows are visited in ascending order, so each transposed row comes out sorted.
  std::vector<NodeId> neighbours(graph.neighbours.size());
  std::vector<float> weights(graph.edge_weights.size());
  std::vector<std::int64_t> cursor(offsets.begin(), offsets.end() - 1);
  for (NodeId v = 0; v < graph.nodes; ++v) {
    for (std::int64_t e = graph.offsets[at(v)]; e < graph.offsets[at(v) + 1]; ++e) {
      const std::size_t to = at(cursor[at(graph.neighbours[at(e)])]++);
      neighbours[to] = v;
      if (!weights.empty()) weights[to] = graph.edge_weights[at(e)];
    }
  }
  return {graph.nodes, graph.directed, std::move(offsets), std::move(neighbours),
          std::move(weights)};
}

Shard build_shard(const NodeIndex& index, int rank, const Graph* transposed) {
  const Graph& graph = index.graph();
  if (rank < 0 || rank >= index.ranks()) {
    throw_error(ErrorCode::usage, "rank {} is not one of the {} parts", rank, index.ranks());
  }
  if (graph.directed && (transposed == nullptr || transposed->nodes != graph.nodes ||
                         transposed->neighbours.size() != graph.neighbours.size())) {
    throw Error(ErrorCode::usage, "a shard of a directed graph needs the graph's transpose");
  }

  Shard shard;
  shard.rank = rank;
  shard.ranks = index.ranks();
  const Graph& reversed = graph.directed ? *transposed : graph;
  shard.in = build_adjacency(index, rank, graph, reversed);
  if (graph.directed) shard.out = build_adjacency(index, rank, reversed, graph);
  shard.inner_rows = shard.in.plan.inner_rows;

  const std::span<const NodeId> nodes = index.nodes(rank);
  shard.global_ids.assign(nodes.begin(), nodes.end());
  shard.in_degree.resize(nodes.size());
  const auto& inner = shard.in.inner.offsets;
  const auto& halo = shard.in.halo.offsets;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    shard.in_degree[i] = inner[i + 1] - inner[i] + halo[i + 1] - halo[i];
  }
  return shard;
}

}  // namespace heliograph
