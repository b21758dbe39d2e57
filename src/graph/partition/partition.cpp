#include "heliograph/partition.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/plural.hpp"
#include "core/throw_error.hpp"
#include "graph/canonical.hpp"
#include "graph/draws.hpp"
#include "graph/partition/metis.hpp"
#include "graph/rows.hpp"
#include "graph/shard.hpp"
#include "graph/validate.hpp"

namespace heliograph {
namespace {

/// A part of fewer nodes has hardly an edge of its own.
constexpr std::int64_t kFewNodes = 4;

void warn_of_small_parts(const Partition& partition, const LogCallback& log) {
  std::vector<std::int64_t> nodes(at(partition.parts));
  for (const std::int32_t owner : partition.owner) ++nodes[at(owner)];
  const auto small = std::ranges::count_if(nodes, [](auto count) { return count < kFewNodes; });
  if (partition.parts == 1 || small == 0) return;
  log(LogLevel::warning,
      fmt::format("{} of {} parts have fewer than {} nodes{}", small, partition.parts, kFewNodes,
                  spell_options(", so nearly every row is sent: take a smaller --parts")));
}

void check_parts(const Graph& graph, int parts) {
  if (parts < 1) throw_error(ErrorCode::usage, "--parts {}: at least 1 is needed", parts);
  if (parts > graph.nodes) {
    throw_error(ErrorCode::usage, "--parts {}: the graph has only {} and every part needs one",
                parts, counted(graph.nodes, "node"));
  }
  check_node_numbers(graph);
}

std::vector<std::int32_t> contiguous_owners(std::int64_t nodes, int parts) {
  std::vector<std::int32_t> owner(at(nodes));
  for (std::int64_t v = 0; v < nodes; ++v) {
    owner[at(v)] = static_cast<std::int32_t>(v * parts / nodes);
  }
  return owner;
}

std::vector<std::int32_t> random_owners(std::int64_t nodes, int parts, std::uint64_t seed) {
  const std::uint64_t stream = generator_stream(seed, Drawn::partition);
  std::vector<std::int32_t> owner(at(nodes));
  for (std::int64_t v = 0; v < nodes; ++v) {
    const std::uint64_t draw = row_key(stream, static_cast<std::uint64_t>(v)) >> 32;
    owner[at(v)] = static_cast<std::int32_t>((draw * static_cast<std::uint64_t>(parts)) >> 32);
  }
  return owner;
}

/// Whether there are enough training nodes to balance. With a handful a part, METIS cannot balance
/// them and gives up the balance of all nodes as well.
bool enough_to_balance(const Split& split, int parts) {
  constexpr std::int64_t least_a_part = 10;
  return std::count(split.role.begin(), split.role.end(), Role::train) >= least_a_part * parts;
}

std::vector<std::int32_t> cut_with_metis(const Graph& graph, const PartitionOptions& options,
                                         const LogCallback& log, const Split* balanced) {
  check_metis_size(graph.nodes, graph.entries(), graph.directed);
  validate_graph(graph, "the graph");  // METIS would read out of bounds.
  if (options.parts == 1) return std::vector<std::int32_t>(at(graph.nodes), 0);
  if (balanced != nullptr && static_cast<std::int64_t>(balanced->role.size()) == graph.nodes &&
      !enough_to_balance(*balanced, options.parts)) {
    balanced = nullptr;
    if (log) {
      log(LogLevel::warning,
          fmt::format(
              "too few training nodes to balance them over {} parts; METIS balances all nodes only",
              options.parts));
    }
  }
  return graph.directed ? metis_owners(unite(graph, transpose(graph)), options, balanced)
                        : metis_owners(graph, options, balanced);
}

/// Gives each empty part the node of lowest degree in the largest part; ties go to the lowest part
/// and the lowest node. Returns how many parts were empty.
int repair_empty_parts(const Graph& graph, Partition& partition) {
  std::vector<std::int64_t> size(at(partition.parts), 0);
  for (const std::int32_t owner : partition.owner) ++size[at(owner)];
  int repaired = 0;
  for (int part = 0; part < partition.parts; ++part) {
    if (size[at(part)] > 0) continue;
    const auto largest = std::max_element(size.begin(), size.end()) - size.begin();
    NodeId moved = -1;
    for (NodeId v = 0; v < graph.nodes; ++v) {
      if (partition.owner[at(v)] != largest) continue;
      if (moved < 0 || graph.degree(v) < graph.degree(moved)) moved = v;
    }
    partition.owner[at(moved)] = part;
    --size[at(largest)];
    ++size[at(part)];
    ++repaired;
  }
  return repaired;
}

}  // namespace

Partition make_partition(const Graph& graph, const PartitionOptions& options,
                         const LogCallback& log, const Split* split) {
  check_parts(graph, options.parts);
  if (options.balance_train && split == nullptr) {
    throw_error(ErrorCode::usage, "--balance-train needs a split of the nodes");
  }
  Partition partition;
  partition.parts = options.parts;
  switch (options.partitioner) {
    case Partitioner::metis:
      partition.owner =
          cut_with_metis(graph, options, log, options.balance_train ? split : nullptr);
      break;
    case Partitioner::contiguous:
      partition.owner = contiguous_owners(graph.nodes, options.parts);
      break;
    case Partitioner::random:
      partition.owner = random_owners(graph.nodes, options.parts, options.seed);
      break;
    case Partitioner::file:
      partition = read_partition(options.file, graph.nodes, options.parts);
      break;
  }
  const int repaired = repair_empty_parts(graph, partition);
  if (repaired > 0 && log) {
    log(LogLevel::warning, fmt::format("the partitioner left {} of {} parts empty; each was given "
                                       "one node of the largest part",
                                       repaired, options.parts));
  }
  if (log) warn_of_small_parts(partition, log);
  return partition;
}

}  // namespace heliograph
