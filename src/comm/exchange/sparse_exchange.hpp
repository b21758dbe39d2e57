#pragma once

#include "comm/communicator.hpp"
#include "core/csr.hpp"
#include "graph/shard.hpp"

namespace heliograph {

/// Returns the exact sparse rows of the halo, in halo order, for precomputation over sparse
/// features. `inner` holds the rank's own rows. Collective.
SparseRows exchange_sparse_rows(Communicator& comm, const HaloPlan& plan, const SparseView& inner);

}  // namespace heliograph
