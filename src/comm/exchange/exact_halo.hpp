#pragma once

#include <array>
#include <memory>
#include <span>

#include "comm/communicator.hpp"
#include "comm/exchange/halo_slot.hpp"
#include "comm/exchange/send_schedule.hpp"
#include "core/buffer.hpp"
#include "core/halo.hpp"
#include "graph/placed_shard.hpp"
#include "quant/codec.hpp"

namespace heliograph {

/// Exact halo rows for evaluation and precomputation, in fp32. They are exchanged in blocks of
/// columns, one after the other, so that a rank never holds more than about `chunk_bytes` of them.
/// Each block also holds all exact columns. A block is a single group, and the site's groups may
/// span blocks.
class ExactHalo final : public Halo {
 public:
  /// References must outlive the object. `largest_halo_rows` is the maximum over all ranks, because
  /// all must divide the columns into the same blocks.
  ExactHalo(Communicator& comm, const PlacedShard& shard, std::int64_t largest_halo_rows,
            std::int64_t chunk_bytes, MemoryAccount* account);

  void open(const Site& site, const OfferedRows& rows) override;
  /// Does nothing: `finish` sends all rows, since it divides them into blocks of columns.
  void offer(const Site& /*site*/, RowRange /*rows*/) override {}
  void finish(const Site& site, FunctionRef<void(const PackedRows&)> consume) override;

  /// Lends memory, 64-byte aligned, that nothing else uses during `finish`. If every rank lends
  /// enough for blocks that are not too narrow for these sites, blocks lie there; else each
  /// `finish` allocates them. Collective, so that all ranks divide the columns into the same
  /// blocks.
  void set_scratch(std::span<std::byte> scratch, std::span<const Site> sites);

  /// The most bytes that this rank allocates while it evaluates a model of these sites.
  std::int64_t block_bytes(std::span<const Site> sites) const;

  /// Makes each `finish` from now on keep its buffers, so that a later one of the same direction
  /// and size allocates nothing.
  void keep_buffers() { keeps_buffers_ = true; }

  /// Sets the epoch that errors name.
  void set_epoch(std::int64_t epoch) { epoch_ = epoch; }

 private:
  /// What an exchange in one direction needs on the device.
  struct Buffers {
    SendSchedule schedule;
    HaloSlot slot;
  };
  std::unique_ptr<Buffers> make_buffers(const HaloPlan& plan) const;
  /// Lends the slot memory for blocks of `cols` encoded columns, if there is enough.
  void lend(HaloSlot& slot, RowFormat format, std::int64_t cols, std::int64_t send_rows,
            std::int64_t halo_rows) const;
  std::int64_t scratch_columns(std::span<std::byte> scratch) const;
  /// The most encoded columns of a block of the site.
  std::int64_t block_cols(const Site& site) const;

  Communicator& comm_;
  const PlacedShard& shard_;
  std::int64_t block_cols_;
  MemoryAccount* account_;
  Codecs codecs_;
  bool keeps_buffers_ = false;
  /// By direction and partial_sums; null between two uses if freed.
  std::array<std::array<std::unique_ptr<Buffers>, 2>, 2> kept_;
  std::span<std::byte> scratch_;
  std::array<OfferedRows, 2> rows_;  ///< By partial_sums.
  std::int64_t epoch_ = 0;
};

}  // namespace heliograph
