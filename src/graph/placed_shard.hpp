#pragma once

#include <array>
#include <cstdint>

#include "core/placed.hpp"
#include "graph/shard.hpp"

namespace heliograph {

/// A shard and what kernels read of it, on the device where they run.
class PlacedShard {
 public:
  /// The shard and the device must outlive it. `account`: of the device's memory; a shard that
  /// lies on the host is not counted here.
  PlacedShard(const Shard& shard, Device& device, MemoryUse use, MemoryAccount* account);

  const Shard& shard() const { return shard_; }
  Device& device() const { return device_; }
  /// By inner row: the user's node number.
  const std::int64_t* global_ids() const { return global_ids_.data(); }
  /// Structure of Shard::adjacency(direction).
  CsrView inner(Direction direction) const { return structure(direction).inner.view(); }
  CsrView halo(Direction direction) const { return structure(direction).halo.view(); }

 private:
  struct Rows {
    std::int64_t rows = 0;
    Placed<std::int64_t> offsets;
    Placed<std::int32_t> columns;

    CsrView view() const { return {rows, offsets.data(), columns.data(), nullptr}; }
  };
  struct Structure {
    Rows inner, halo;
  };
  const Structure& structure(Direction direction) const {
    return direction == Direction::forward || !shard_.out ? structures_[0] : structures_[1];
  }

  const Shard& shard_;
  Device& device_;
  Placed<std::int64_t> global_ids_;
  std::array<Structure, 2> structures_;  ///< The second of a directed graph only.
};

}  // namespace heliograph
