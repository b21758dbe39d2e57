#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
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
#include "quant/kept_columns.hpp"

namespace heliograph {

/// Exchanges the halo rows of one site. The rows for a peer travel in the messages of the schedule,
/// each of which is sent as soon as its rows are encoded. A row that several peers need is encoded
/// once. Messages lie in the buffers of the slots in which the exchange is opened. Only the rank's
/// own thread uses it.
class HaloExchange {
 public:
  /// References must outlive the exchange. `schedule` belongs to `plan`; if kernels do not run on
  /// the host, it is placed and shares no rows. `seed` is the seed of the rounding noise.
  HaloExchange(Communicator& comm, const PlacedShard& shard, const HaloPlan& plan,
               const SendSchedule& schedule, Site site, std::uint64_t seed);

  const Site& site() const { return site_; }
  const HaloPlan& plan() const { return plan_; }

  /// Makes the exchange leave out the columns of each row that Site::dropped drops and, with
  /// set_bits, bits of each code. It holds the masks of `epochs` epochs. `packed`, a buffer that
  /// takes all rows sent, must outlive the exchange. Exchanges may share it if the rows of each are
  /// offered before the next is opened. Collective.
  void keep_columns(RowFormat format, int epochs, const Buffer& packed, MemoryAccount* account);
  /// If the exchange leaves out columns or bits: draws the masks of an epoch, before it is opened.
  /// On a CUDA device they are valid when its queue is done.
  void draw_columns(Clock clock);

  /// The bits of each inner row's codes, then of each halo row's; empty until `set_bits`.
  const std::vector<std::uint8_t>& bits() const { return bits_; }
  /// Gives rows these bits, in the layout of keep_columns' format, from the next `draw_columns` on.
  void set_bits(std::vector<std::uint8_t> bits);
  /// Sets the bits of inner rows, 1, 2, 4 or 8 each, and of the halo rows of which the peers tell
  /// it, in 2 bits a row. Collective. Throws Error: peer_lost.
  void tell_bits(std::vector<std::uint8_t> inner, Channel channel);
  /// The range of each inner row that the open exchange has encoded, with all rows offered; 0 for
  /// the others.
  std::vector<float> ranges() const;

  /// Waits for the earlier messages of the slot, then posts the receives; if the device orders
  /// messages, it waits instead, and the receives are posted with the sends. `codec` and `rows`
  /// must stay valid until the last offer.
  /// Throws Error: peer_lost.
  void open(HaloSlot& slot, const Codec& codec, Clock clock, const OfferedRows& rows,
            PhaseClock& times);

  /// Encodes these rows into the messages that need them, one message after the other, and posts
  /// each complete message. A device encodes and posts the messages of a piece once all of them
  /// are complete and earlier kernels are done; if it also orders messages, nothing waits for
  /// that, and rows that cannot be encoded are found later (note_in). Ranges are those of
  /// Halo::offer.
  /// Throws Error: numeric (names layer, node and epoch), peer_lost.
  void offer(RowRange rows, PhaseClock& times);

  /// Where the codec notes rows that cannot be encoded, if the device orders messages
  /// (RowSelection::failed). If it is null, `offer` waits for the codec and throws.
  void note_in(std::int32_t* failed) { failed_ = failed; }
  /// The node of the row that the codec has noted.
  std::int64_t noted_node() const;

  /// Waits for the rows that this exchange receives in `slot`. They are valid until an exchange is
  /// next opened there or, if columns are left out, as long as `expanded`, a buffer that takes all
  /// rows received, is not written anew. Sends may still be in flight.
  /// Throws Error: usage (another exchange has been opened in the slot since), peer_lost.
  PackedRows finish(HaloSlot& slot, const Buffer& expanded, PhaseClock& times);

  /// The bytes of the rows received in `slot`, as sent. Call after waiting for the receives.
  std::span<const std::byte> received(const HaloSlot& slot) const {
    return {slot.received(), receive_offset(slot, plan_.halo_rows)};
  }
  /// Space in `slot` for bytes that `received` returned earlier. When the caller has filled it,
  /// `finish` treats them as received rows.
  std::span<std::byte> adopt(HaloSlot& slot, RowFormat format, Clock clock);

  /// What has been sent so far: the number of exchanges, then the bytes to each peer of the plan. A
  /// resumed run sets it to the count of the earlier run.
  const std::vector<std::int64_t>& sent() const { return sent_; }
  void set_sent(std::span<const std::int64_t> sent) { std::ranges::copy(sent, sent_.begin()); }

  /// Bytes that have been posted so far.
  std::int64_t bytes_sent() const {
    return std::accumulate(sent_.begin() + 1, sent_.end(), std::int64_t{0});
  }
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
  /// Where halo row `row`, the first of a peer or the end, begins in the messages of `slot`.
  std::size_t receive_offset(const HaloSlot& slot, std::int64_t row) const {
    if (received_columns_) return received_columns_->offset(slot.epoch, row);
    return static_cast<std::size_t>(row) * slot.format.row_bytes(site_.cols);
  }
  /// Where row `row` of the schedule, the first of a message, begins in the messages of this epoch.
  std::size_t send_offset(std::int64_t row) const {
    if (sent_columns_) return sent_columns_->offset(clock_.epoch, row);
    return static_cast<std::size_t>(row) * slot_->format.row_bytes(site_.cols);
  }
  /// The first halo row of a message from a peer.
  std::int64_t received_begin(const HaloPlan::Peer& peer, int piece) const {
    return peer.halo_begin +
           SendSchedule::piece_begin(peer.halo_end - peer.halo_begin, piece, schedule_.pieces());
  }
  void draw(KeptColumns& columns, Clock clock) const;
  void post_receives(HaloSlot& slot, int piece);
  void offer_on_host(RowRange rows, PhaseClock& times);
  /// Posts the next pieces, as far as all their rows are before `end`.
  void offer_on_device(std::int64_t end, PhaseClock& times);
  void compress(std::int64_t begin, std::int64_t end, PhaseClock& times) const;
  void post(const SendSchedule::Message& message, PhaseClock& times);
  std::byte* row_at(const SendSchedule::Message& message, std::int64_t row) const;
  void encode(const RowSelection& rows, std::byte* out, PhaseClock& times) const;
  void encode(const SendSchedule::Message& message, RowRange rows, PhaseClock& times) const;
  void copy_shared(const SendSchedule::Message& message) const;
  /// The number of each offered row, which keys its noise.
  const std::int64_t* row_ids() const {
    return site_.partial_sums ? shard_.sum_ids(site_.direction) : shard_.global_ids();
  }
  /// The bits of each offered row, on the device; null if all have those of the format.
  const std::uint8_t* row_bits() const {
    return bits_.empty() ? nullptr : placed_bits_.as<std::uint8_t>().data();
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
  std::vector<std::int64_t> sent_;
  std::vector<std::uint8_t> bits_;
  Buffer placed_bits_;  ///< Those of inner rows, on the device.
  MemoryAccount* account_ = nullptr;
  // If columns or bits are left out: those of the rows sent, and of the rows received in each epoch
  // held.
  std::unique_ptr<KeptColumns> sent_columns_, received_columns_;
  const Buffer* packed_ = nullptr;
  // The state of the exchange that is open.
  HaloSlot* slot_ = nullptr;
  const Codec* codec_ = nullptr;
  OfferedRows rows_;
  Clock clock_;
  std::uint64_t stream_ = 0;
  int piece_ = 0;                  ///< On a device: the next piece to send.
  std::byte* buffer_ = nullptr;    ///< The messages.
  std::byte* rows_out_ = nullptr;  ///< The packed rows of all messages.
  std::byte* in_ = nullptr;        ///< The messages that are received.
  std::int32_t* failed_ = nullptr;
};

}  // namespace heliograph
