#pragma once

#include <cstdint>
#include <vector>

#include "heliograph/partition.hpp"

namespace heliograph {

/// Throws Error(resource) if METIS's 32-bit indices cannot hold a graph of this size. A directed
/// graph is symmetrised first, which may double its entries. Allocates nothing.
void check_metis_size(std::int64_t nodes, std::int64_t entries, bool directed);

/// What METIS answers for 2 <= parts <= nodes: an owner in [0, parts) for each node. Parts may
/// come back empty: callers repair them. `graph` must be undirected and canonical.
/// Calls are serialised, since METIS draws from the C library's one random generator. SIGTERM
/// reaches this thread only after the call: METIS would trap it.
/// Throws Error: resource (out of memory), bad_input (METIS refuses or answers nonsense).
std::vector<std::int32_t> metis_owners(const Graph& graph, const PartitionOptions& options);

}  // namespace heliograph
