#include "graph/placed_shard.hpp"

#include <span>

namespace heliograph {

PlacedShard::PlacedShard(const Shard& shard, Kernels& kernels, MemoryRoom room,
                         MemoryAccount* account)
    : shard_(shard),
      kernels_(kernels),
      global_ids_(std::span<const std::int64_t>(shard.global_ids), kernels, room, account) {
  const auto place = [&](const Csr& csr) {
    return Rows{csr.view().rows,
                {std::span(csr.offsets), kernels, room, account},
                {std::span(csr.columns), kernels, room, account}};
  };
  structures_[0] = {place(shard.in.inner), place(shard.in.halo)};
  if (shard.out) structures_[1] = {place(shard.out->inner), place(shard.out->halo)};
}

}  // namespace heliograph
