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

/// What a site has sent so far: the number of its exchanges, and the bytes that one row took,
/// summed over these exchanges.
struct SentRows {
  std::int64_t exchanges = 0;
  std::int64_t row_bytes = 0;
};

/// Exchanges the halo rows of one site. Each peer gets one message, which is sent as soon as its
/// rows are encoded. A row that several peers need is encoded once. The object holds no buffers;
/// they belong to the slots in which it is opened.
/// Only the rank's own thread uses it.
class HaloExchange {
 public:
  /// References must outlive the exchange. `schedule` belongs to `plan`; if kernels do not run on
  /// the host, it is placed and shares no rows. `seed` is the seed of the rounding noise.
  HaloExchange(Communicator& comm, const PlacedShard& shard, const HaloPlan& plan,
               const SendSchedule& schedule, Site site, std::uint64_t seed);

  const Site& site() const { return site_; }

  /// Waits for the earlier messages of the slot, then posts the receives; if the device orders
  /// messages, it waits instead, and the receives are posted with the sends. `codec` and `rows`
  /// must stay valid until the last offer.
  /// Throws Error: peer_lost.
  void open(HaloSlot& slot, const Codec& codec, Clock clock, const OfferedRows& rows,
            PhaseClock& times);

  /// Encodes these rows into the messages that need them, one message after the other, and posts
  /// each complete message. A device encodes all rows at once, when the last ones are offered and
  /// earlier kernels are done; if it also orders messages, nothing waits for that, and rows that
  /// cannot be encoded are found later (note_in). Ranges are those of Halo::offer.
  /// Throws Error: numeric (names layer, node and epoch), peer_lost.
  void offer(RowRange rows, PhaseClock& times);

  /// Where the codec notes rows that cannot be encoded, if the device orders messages
  /// (RowSelection::failed). If it is null, `offer` waits for the codec and throws.
  void note_in(std::int32_t* failed) { failed_ = failed; }
  /// The node of the row that the codec has noted.
  std::int64_t noted_node() const;

  /// Waits for the rows that this exchange receives in `slot`. They are valid until an exchange is
  /// next opened there. Sends may still be in flight. Throws Error: usage (another exchange has
  /// been opened in the slot since), peer_lost.
  PackedRows finish(HaloSlot& slot, PhaseClock& times);

  /// The bytes of the rows received in `slot`, as sent. Call after waiting for the receives.
  std::span<const std::byte> received(const HaloSlot& slot) const {
    return {slot.received(), receive_bytes(slot.format)};
  }
  /// Space in `slot` for bytes that `received` returned earlier. When the caller has filled it,
  /// `finish` treats them as received rows.
  std::span<std::byte> adopt(HaloSlot& slot, RowFormat format) const;

  /// What has been sent so far. A resumed run sets it to the count of the earlier run.
  SentRows sent() const { return sent_; }
  void set_sent(SentRows sent) { sent_ = sent; }

  /// Bytes that have been posted so far.
  std::int64_t bytes_sent() const { return schedule_.rows() * sent_.row_bytes; }
  /// The bytes that the rows of all boundary nodes would have taken in fp32: 4 a value.
  std::int64_t fp32_bytes_sent() const;
  /// Appends both numbers to `traffic`, for each receiving rank.
  void append_traffic(std::vector<LinkTraffic>& traffic) const;

 private:
  /// The peer's boundary rows, which this exchange sends or partial sums replace.
  std::int64_t boundary_rows(const HaloPlan::Peer& peer) const {
    return site_.partial_sums ? 0 : static_cast<std::int64_t>(peer.sent.size()) + peer.replaced;
  }
  std::int64_t fp32_row_bytes() const { return 4 * (site_.cols + site_.exact_cols); }
  std::size_t receive_bytes(RowFormat format) const {
    return static_cast<std::size_t>(plan_.halo_rows) * format.row_bytes(site_.cols);
  }
  void post_receives(HaloSlot& slot);
  std::byte* row_at(const SendSchedule::Message& message, std::int64_t row) const;
  void encode(const RowSelection& rows, std::byte* out, PhaseClock& times) const;
  void encode(const SendSchedule::Message& message, RowRange rows, PhaseClock& times) const;
  void copy_shared(const SendSchedule::Message& message) const;
  /// The number of each offered row, which keys its noise.
  const std::int64_t* row_ids() const {
    return site_.partial_sums ? shard_.sum_ids(site_.direction) : shard_.global_ids();
  }
  /// The node of an offered row, or the one that a partial sum is for.
  std::int64_t node_of(std::int32_t row) const;
  [[noreturn]] void refuse(const UnencodableRow& row) const;

  Communicator& comm_;
  const PlacedShard& shard_;
  const HaloPlan& plan_;
  const SendSchedule& schedule_;
  Site site_;
  std::uint64_t seed_;
  std::vector<RecvMessage> receives_;
  SentRows sent_;
  // The state of the exchange that is open.
  HaloSlot* slot_ = nullptr;
  const Codec* codec_ = nullptr;
  OfferedRows rows_;
  Clock clock_;
  std::uint64_t stream_ = 0;
  std::byte* buffer_ = nullptr;
  std::int32_t* failed_ = nullptr;
};

}  // namespace heliograph
