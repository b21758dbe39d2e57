#include "comm/exchange/halo_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core/noise.hpp"
#include "core/overflow_advice.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

/// The number of runs of rows in one task: so many that the cost of starting a task is negligible.
constexpr std::int64_t kRunsPerTask = 1024;

}  // namespace

HaloExchange::HaloExchange(Communicator& comm, const PlacedShard& shard, const HaloPlan& plan,
                           const SendSchedule& schedule, Site site, std::uint64_t seed)
    : comm_(comm),
      shard_(shard),
      plan_(plan),
      schedule_(schedule),
      site_(std::move(site)),
      seed_(seed) {
  receives_.reserve(plan_.peers.size());
}

void HaloExchange::post_receives(HaloSlot& slot) {
  const std::size_t row_bytes = slot.format.row_bytes(site_.cols);
  std::byte* in = slot.receive_buffer(receive_bytes(slot.format));
  receives_.clear();
  for (const HaloPlan::Peer& peer : plan_.peers) {
    const auto rows = static_cast<std::size_t>(peer.halo_end - peer.halo_begin);
    if (rows == 0) continue;
    receives_.push_back({peer.rank, in + static_cast<std::size_t>(peer.halo_begin) * row_bytes,
                         rows * row_bytes, !shard_.device().on_host()});
  }
  slot.post_receives(receives_);
}

void HaloExchange::open(HaloSlot& slot, const Codec& codec, Clock clock, const OfferedRows& rows,
                        PhaseClock& times) {
  slot_ = &slot;
  codec_ = &codec;
  clock_ = clock;
  rows_ = rows;
  ++sent_.exchanges;
  sent_.row_bytes += static_cast<std::int64_t>(codec.format().row_bytes(site_.cols));
  slot.user = this;
  slot.format = codec.format();
  if (comm_.size() == 1) return;  // There is nothing to wait for, not even for the device.
  if (slot.in_order()) {
    if (!slot.followed()) slot.follow();
  } else {
    {
      const PhaseTimer timer(times.exposed_comm);
      slot.wait_for_receives();
    }
    shard_.device().finish();  // Kernels may still read what the slot received before.
    post_receives(slot);
    const PhaseTimer timer(times.exposed_comm);
    slot.wait_for_sends();
  }
  buffer_ = slot.send_buffer(codec.encoded_bytes(schedule_.rows(), site_.cols));
  stream_ = stream_key(seed_, Purpose::rounding, clock, site_.key);
}

std::byte* HaloExchange::row_at(const SendSchedule::Message& message, std::int64_t row) const {
  return buffer_ +
         static_cast<std::size_t>(message.first_row + row) * slot_->format.row_bytes(site_.cols);
}

void HaloExchange::encode(const RowSelection& rows, std::byte* out, PhaseClock& times) const {
  const PhaseTimer timer(times.encode);
  const UnencodableRow bad =
      codec_->encode(rows_.values, rows, stream_, out, shard_.device().threads());
  if (bad.row >= 0) refuse(bad);
}

/// Encodes those rows of a message that no earlier message holds.
void HaloExchange::encode(const SendSchedule::Message& message, RowRange rows,
                          PhaseClock& times) const {
  const std::vector<std::int32_t>& all = message.fresh_rows();
  const auto begin = std::lower_bound(all.begin(), all.end(), rows.begin) - all.begin();
  const auto end = std::lower_bound(all.begin(), all.end(), rows.end) - all.begin();
  if (begin == end) return;
  RowSelection selection{{all.data() + begin, static_cast<std::size_t>(end - begin)},
                         rows_.scale,
                         row_ids(),
                         nullptr,
                         rows_.exact};
  if (!message.encodes_all) selection.positions = message.new_positions.data() + begin;
  encode(selection, row_at(message, message.encodes_all ? begin : 0), times);
}

/// Copies the other rows from earlier messages, in which they are already encoded.
void HaloExchange::copy_shared(const SendSchedule::Message& message) const {
  const std::size_t row_bytes = slot_->format.row_bytes(site_.cols);
  for (const SendSchedule::Copies& copies : message.copies) {
    const SendSchedule::Message& source = schedule_.messages()[copies.message];
    shard_.device().threads().for_ranges(
        static_cast<std::int64_t>(copies.runs.size()), kRunsPerTask,
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const SendSchedule::Run& run = copies.runs[static_cast<std::size_t>(i)];
            std::memcpy(row_at(message, run.to), row_at(source, run.from),
                        static_cast<std::size_t>(run.rows) * row_bytes);
          }
        });
  }
}

void HaloExchange::offer(RowRange rows, PhaseClock& times) {
  if (comm_.size() == 1) return;
  const bool last = rows.end == rows_.values.rows;
  const bool at_once = !shard_.device().on_host();
  if (at_once && !last) return;
  if (at_once) {
    encode({schedule_.placed_rows(), rows_.scale, row_ids(), nullptr, rows_.exact,
            slot_->in_order() ? failed_ : nullptr},
           buffer_, times);
    if (slot_->in_order()) post_receives(*slot_);
  }
  for (const SendSchedule::Message& message : schedule_.messages()) {
    if (!at_once) {
      encode(message, rows, times);
      // Rows are offered in ascending order, so the message is complete after its last row.
      const std::int32_t final_row = message.send_rows->back();
      if (final_row < rows.begin || final_row >= rows.end) continue;
      const PhaseTimer timer(times.encode);
      copy_shared(message);
    }
    slot_->post_send(
        {message.peer, row_at(message, 0),
         static_cast<std::size_t>(message.rows()) * slot_->format.row_bytes(site_.cols), at_once});
  }
  if (!last) return;
  if (slot_->in_order()) {
    slot_->flush();
  } else {
    comm_.flush();
  }
}

std::int64_t HaloExchange::noted_node() const {
  auto index = static_cast<std::size_t>(std::int64_t{*failed_} + kNoFailedRow);
  for (const SendSchedule::Message& message : schedule_.messages()) {
    const std::vector<std::int32_t>& rows = *message.send_rows;
    if (index < rows.size()) return node_of(rows[index]);
    index -= rows.size();
  }
  throw Error(ErrorCode::usage, site_.name + ": no row of this exchange was noted");
}

PackedRows HaloExchange::finish(HaloSlot& slot, PhaseClock& times) {
  if (slot.user != this) {
    throw Error(ErrorCode::usage,
                site_.name + ": the slot of its halo holds no rows of this exchange");
  }
  if (comm_.size() == 1) return {slot.received(), 0, site_.cols, 0, slot.format};
  if (slot.in_order()) {
    const PhaseTimer timer(times.exposed_comm);
    slot.follow();
  } else {
    shard_.device().finish();  // The time until the device is done is not exposed communication.
    const PhaseTimer timer(times.exposed_comm);
    slot.wait_for_receives();
  }
  return {slot.received(), plan_.halo_rows, site_.cols, 0, slot.format};
}

std::span<std::byte> HaloExchange::adopt(HaloSlot& slot, RowFormat format) const {
  slot.user = this;
  slot.format = format;
  return {slot.receive_buffer(receive_bytes(format)), receive_bytes(format)};
}

std::int64_t HaloExchange::fp32_bytes_sent() const {
  std::int64_t rows = 0;
  for (const HaloPlan::Peer& peer : plan_.peers) rows += boundary_rows(peer);
  return rows * sent_.exchanges * fp32_row_bytes();
}

void HaloExchange::append_traffic(std::vector<LinkTraffic>& traffic) const {
  for (const HaloPlan::Peer& peer : plan_.peers) {
    const auto rows = static_cast<std::int64_t>(peer.sent.size());
    if (rows == 0 && boundary_rows(peer) == 0) continue;
    LinkTraffic link;
    link.from = comm_.rank();
    link.to = peer.rank;
    link.site = site_.id;
    link.bytes = rows * sent_.row_bytes;
    link.fp32_bytes = boundary_rows(peer) * sent_.exchanges * fp32_row_bytes();
    traffic.push_back(link);
  }
}

std::int64_t HaloExchange::node_of(std::int32_t row) const {
  const Shard& shard = shard_.shard();
  const auto at = static_cast<std::size_t>(row);
  if (!site_.partial_sums) return shard.global_ids[at];
  return PartialSums::node_of(shard.adjacency(site_.direction).sums->ids[at]);
}

void HaloExchange::refuse(const UnencodableRow& row) const {
  const std::string what =
      row.col >= 0 ? "is " + std::to_string(row.value) + " in column " + std::to_string(row.col)
                   : std::string("spans more than the wire format holds");
  throw_error(ErrorCode::numeric, "rows of {}, node {}: the row {}: {}", site_.name,
              node_of(row.row), what, overflow_advice(clock_.epoch));
}

}  // namespace heliograph
