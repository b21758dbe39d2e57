#include "graph/placed_shard.hpp"

#include <span>

namespace heliograph {

PlacedShard::PlacedShard(const Shard& shard, Device& device, MemoryUse use, MemoryAccount* account)
    : shard_(shard),
      device_(device),
      global_ids_(std::span<const std::int64_t>(shard.global_ids), device, use, account) {
  const auto place = [&](const Csr& csr) {
    return Rows{csr.view().rows,
                {std::span(csr.offsets), device, use, account},
                {std::span(csr.columns), device, use, account},
                {std::span(csr.values), device, use, account}};
  };
  const auto place_all = [&](const Adjacency& a) {
    const auto place_ids = [&](const std::vector<std::int64_t>& ids) {
      return Placed<std::int64_t>(std::span(ids), device, use, account);
    };
    Structure placed{place(a.inner), place(a.halo), {}, {}, place_ids(a.halo_ids), {}};
    if (a.sums) {
      placed.made = place(a.sums->made);
      placed.received = place(a.sums->received);
      placed.sum_ids = place_ids(a.sums->ids);
    }
    return placed;
  };
  structures_[0] = place_all(shard.in);
  if (!shard.halo_sources.offsets.empty()) halo_sources_ = place(shard.halo_sources);
  if (shard.out) structures_[1] = place_all(*shard.out);
}

}  // namespace heliograph
