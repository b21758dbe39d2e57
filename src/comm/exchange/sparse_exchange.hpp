#pragma once

#include "comm/communicator.hpp"
#include "core/csr.hpp"
#include "graph/shard.hpp"

namespace heliograph {

/// The halo's sparse rows, in halo order: for precomputation over sparse features. Exact.
/// `inner`: the rank's own rows.
SparseRows exchange_sparse_rows(Communicator& comm, const HaloPlan& plan, const SparseView& inner);

}  // namespace heliograph
