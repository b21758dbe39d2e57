#pragma once

#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/exchange/halo_slot.hpp"
#include "core/buffer.hpp"
#include "core/halo.hpp"
#include "core/phase_clock.hpp"
#include "graph/placed_shard.hpp"
#include "quant/codec.hpp"

namespace heliograph {

/// Exact halo rows for evaluation and precomputation: fp32, synchronous, streamed in blocks of
/// columns so that a rank never holds more than about `chunk_bytes` of them. Exact columns come
/// with the first block.
class ExactHalo final : public Halo {
 public:
  /// References must outlive the object. `largest_halo_rows` is the maximum over ranks: all must
  /// cut the columns alike.
  ExactHalo(Communicator& comm, const PlacedShard& shard, std::int64_t largest_halo_rows,
            std::int64_t chunk_bytes, MemoryAccount* account);

  void open(const Site& site, const OfferedRows& rows) override;
  /// Nothing leaves before `finish`, which cuts the columns.
  void offer(const Site& /*site*/, RowRange /*rows*/) override {}
  void finish(const Site& site, FunctionRef<void(const PackedRows&)> consume) override;

  /// Memory that nobody needs while halos come, 64-byte aligned: if every rank has enough for
  /// blocks that are not too narrow, blocks lie there; else they are allocated for as long as a
  /// `finish`. Collective: all ranks cut the columns alike.
  void set_scratch(std::span<std::byte> scratch);

  /// The epoch that errors name.
  void set_epoch(std::int64_t epoch) { epoch_ = epoch; }

 private:
  void lend(HaloSlot& slot, const Site& site, std::int64_t send_rows, std::int64_t halo_rows) const;
  std::int64_t scratch_columns(std::span<std::byte> scratch) const;

  Communicator& comm_;
  const PlacedShard& shard_;
  std::int64_t block_cols_;
  MemoryAccount* account_;
  std::unique_ptr<Codec> codec_;
  std::span<std::byte> scratch_;
  OfferedRows rows_;
  std::int64_t epoch_ = 0;
};

}  // namespace heliograph
