#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "core/csr.hpp"
#include "graph/shard.hpp"

namespace heliograph {

// Exchanges before training. Collective.

/// Returns the values of halo rows, in halo order. `inner` holds those of the rank's own rows.
std::vector<std::int64_t> exchange_numbers(Communicator& comm, const HaloPlan& plan,
                                           std::span<const std::int64_t> inner);

/// The reverse: returns the sum of the peers' values of each of the rank's own rows. `halo` holds
/// the rank's values of its halo rows.
std::vector<double> sum_to_owners(Communicator& comm, const HaloPlan& plan,
                                  std::span<const double> halo);

/// Returns the exact sparse rows of the halo, in halo order, for precomputation over sparse
/// features. `inner` holds the rank's own rows.
SparseRows exchange_sparse_rows(Communicator& comm, const HaloPlan& plan, const SparseView& inner);

}  // namespace heliograph
