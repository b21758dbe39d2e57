#pragma once

#include <cstdint>
#include <vector>

#include "heliograph/partition.hpp"

namespace heliograph {

/// Throws Error(resource) if METIS's 32-bit indices cannot represent a graph of this size. A
/// directed graph is made symmetric for METIS, which may double its entries. Allocates nothing.
void check_metis_size(std::int64_t nodes, std::int64_t entries, bool directed);

/// Partitions an undirected canonical graph with METIS (Karypis and Kumar, 1998) into
/// 2 <= parts <= nodes parts, and balances the training nodes of `balanced` unless it is null.
/// Returns the owner of each node, in [0, parts). Parts may be empty, and the caller repairs them.
/// Calls are serialised, since METIS draws from the C library's global random generator. SIGTERM
/// reaches this thread only after the call, since METIS would catch it. Throws Error: resource (out
/// of memory) or bad_input (METIS rejects the graph or fails).
std::vector<std::int32_t> metis_owners(const Graph& graph, const PartitionOptions& options,
                                       const Split* balanced);

}  // namespace heliograph
