#pragma once

#include <array>
#include <cstdint>

#include "core/placed.hpp"
#include "graph/shard.hpp"

namespace heliograph {

/// A shard and, on the device that computes, the parts of it that kernels read.
class PlacedShard {
 public:
  /// The shard and the device must outlive the object. `account` counts the memory of copies on the
  /// device; if the device is the host, nothing is copied or counted.
  PlacedShard(const Shard& shard, Device& device, MemoryUse use, MemoryAccount* account);

  const Shard& shard() const { return shard_; }
  Device& device() const { return device_; }
  /// The user's node number of each inner row.
  const std::int64_t* global_ids() const { return global_ids_.data(); }
  /// The user's node number of each row of the halo; null if the shard does not have it.
  const std::int64_t* halo_ids(Direction direction) const {
    return structure(direction).halo_ids.data();
  }
  /// The inner block of Shard::adjacency(direction).
  CsrView inner(Direction direction) const { return structure(direction).inner.view(); }
  /// The halo block of Shard::adjacency(direction).
  CsrView halo(Direction direction) const { return structure(direction).halo.view(); }
  /// PartialSums::made and PartialSums::received of Shard::adjacency(direction), which must have
  /// sums.
  CsrView sums_made(Direction direction) const { return structure(direction).made.view(); }
  CsrView sums_received(Direction direction) const { return structure(direction).received.view(); }
  /// PartialSums::ids; null without sums.
  const std::int64_t* sum_ids(Direction direction) const {
    return structure(direction).sum_ids.data();
  }
  /// Shard::halo_sources.
  CsrView halo_sources() const { return halo_sources_.view(); }

 private:
  struct Rows {
    std::int64_t rows = 0;
    Placed<std::int64_t> offsets;
    Placed<std::int32_t> columns;
    Placed<float> values;  ///< Null if all are 1.

    CsrView view() const { return {rows, offsets.data(), columns.data(), nullptr, values.data()}; }
  };
  struct Structure {
    Rows inner, halo, made, received;
    Placed<std::int64_t> halo_ids, sum_ids;
  };
  const Structure& structure(Direction direction) const {
    return direction == Direction::forward || !shard_.out ? structures_[0] : structures_[1];
  }

  const Shard& shard_;
  Device& device_;
  Placed<std::int64_t> global_ids_;
  Rows halo_sources_;
  std::array<Structure, 2> structures_;  ///< A and A^T; the second is empty if they are equal.
};

}  // namespace heliograph
