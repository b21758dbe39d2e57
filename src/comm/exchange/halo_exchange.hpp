#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/exchange/halo_slot.hpp"
#include "comm/exchange/send_schedule.hpp"
#include "core/halo.hpp"
#include "core/phase_clock.hpp"
#include "graph/placed_shard.hpp"
#include "heliograph/traffic.hpp"
#include "quant/codec.hpp"

namespace heliograph {

/// What a site has sent so far, to each of its peers: bytes of one row, summed over exchanges, and
/// how many there were.
struct SentRows {
  std::int64_t exchanges = 0;
  std::int64_t row_bytes = 0;
};

/// Moves the halo rows of one site: one message a peer, which leaves as soon as its rows are
/// encoded. A row that several peers need is encoded once. Holds no buffers: they belong to the
/// slots that it is opened in.
/// Used by the rank's own thread.
class HaloExchange {
 public:
  /// References must outlive the exchange. `schedule` is of `plan`, and placed and without shared
  /// rows where kernels do not run on the host. `seed`: of the rounding noise.
  HaloExchange(Communicator& comm, const PlacedShard& shard, const HaloPlan& plan,
               const SendSchedule& schedule, Site site, std::uint64_t seed);

  const Site& site() const { return site_; }

  /// Posts what it will receive, once what the slot held before is done. `codec` and `rows` must
  /// outlive the last offer.
  /// Throws Error: peer_lost.
  void open(HaloSlot& slot, const Codec& codec, Clock clock, const OfferedRows& rows,
            PhaseClock& times);

  /// Encodes these rows' part of one message after the other, and posts each that is complete. A
  /// device encodes all rows in one go when the last were offered, once the kernels that were asked
  /// for before are done. Ranges as Halo::offer says.
  /// Throws Error: numeric (names layer, node and epoch), peer_lost.
  void offer(RowRange rows, PhaseClock& times);

  /// Waits for the rows that this exchange was opened for in `slot`, valid until anything is opened
  /// there again; what was sent may still be under way. Throws Error: usage (another exchange has
  /// taken the slot since), peer_lost.
  PackedRows finish(HaloSlot& slot, PhaseClock& times);

  /// The rows that were received in `slot`, whose receives have been waited for, as they came.
  std::span<const std::byte> received(const HaloSlot& slot) const {
    return {slot.received(), receive_bytes(slot.format)};
  }
  /// Place in `slot` for rows as `received` gave them: once filled, `finish` takes them for its
  /// own.
  std::span<std::byte> adopt(HaloSlot& slot, RowFormat format) const;

  /// Set to go on from what an earlier run has sent.
  SentRows sent() const { return sent_; }
  void set_sent(SentRows sent) { sent_ = sent; }

  /// Bytes that have been posted so far.
  std::int64_t bytes_sent() const { return schedule_.rows() * sent_.row_bytes; }
  /// The same rows at 4 bytes a value, no parameters.
  std::int64_t fp32_bytes_sent() const {
    return schedule_.rows() * sent_.exchanges * fp32_row_bytes();
  }
  /// Both, by receiving rank, appended to `traffic`.
  void append_traffic(std::vector<LinkTraffic>& traffic) const;

 private:
  std::int64_t fp32_row_bytes() const { return 4 * (site_.cols + site_.exact_cols); }
  std::size_t receive_bytes(RowFormat format) const {
    return static_cast<std::size_t>(plan_.halo_rows) * format.row_bytes(site_.cols);
  }
  void post_receives(HaloSlot& slot);
  std::byte* row_at(const SendSchedule::Message& message, std::int64_t row) const;
  void encode(const RowSelection& rows, std::byte* out, PhaseClock& times) const;
  void encode(const SendSchedule::Message& message, RowRange rows, PhaseClock& times) const;
  void copy_shared(const SendSchedule::Message& message) const;
  [[noreturn]] void refuse(const UnencodableRow& row) const;

  Communicator& comm_;
  const PlacedShard& shard_;
  const HaloPlan& plan_;
  const SendSchedule& schedule_;
  Site site_;
  std::uint64_t seed_;
  std::vector<RecvMessage> receives_;
  SentRows sent_;
  // Of the exchange that is open.
  HaloSlot* slot_ = nullptr;
  const Codec* codec_ = nullptr;
  OfferedRows rows_;
  Clock clock_;
  std::uint64_t stream_ = 0;
  std::byte* buffer_ = nullptr;
};

}  // namespace heliograph
