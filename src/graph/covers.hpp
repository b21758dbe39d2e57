#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/csr.hpp"
#include "graph/shard.hpp"
#include "heliograph/partition.hpp"

namespace heliograph {

/// A smallest cover of a bipartite graph's edges by its rows (sources) and columns (targets): 1 for
/// each one in the cover. Found from a largest matching (König, 1931; after Hopcroft and Karp,
/// 1973), with as many sources as any smallest cover has. `edges` has rows of distinct columns
/// below `targets`.
struct Cover {
  std::vector<std::uint8_t> sources, targets;
};
Cover smallest_cover(const Csr& edges, std::int64_t targets);

/// For each ordered pair of ranks a smallest cover of the edges from nodes of one to nodes of the
/// other, of all smallest ones that with most sources. A source in the cover sends its row; for a
/// target in the cover the owner of its other sources sends their sum. Sources and targets are
/// those that have such edges, in local order. Backward passes use the same covers: through an
/// undirected graph as forward, through a directed one with sources and targets exchanged.
class Covers {
 public:
  /// Finds the covers of all pairs on `threads` threads. `transposed`: as for build_shard.
  Covers(const NodeIndex& index, const Graph* transposed, int threads);

  /// Writes the covers of the rank's pairs into its shard (Adjacency::cover).
  void mark(Shard& shard) const;

  /// What a forward exchange sends. Backward through a directed graph, rows and sums change places.
  const CoverCounts& counts() const { return counts_; }

  const Cover& of(int from, int to) const {
    return covers_[static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks_) +
                   static_cast<std::size_t>(to)];
  }

 private:
  int ranks_;
  std::vector<Cover> covers_;  ///< From rank i to rank k: i * ranks + k.
  CoverCounts counts_;
};

/// The rank's shard in which rows and sums of covers travel instead of all boundary rows. `shard`
/// has marks of Covers::mark. `halo_ids` and `halo_ids_out`: the node numbers of the halo rows of
/// both adjacencies (the second is unused for an undirected graph).
Shard cover_halos(Shard shard, std::span<const std::int64_t> halo_ids,
                  std::span<const std::int64_t> halo_ids_out);

}  // namespace heliograph
