#include "comm/halo_exchange.hpp"

#include <cstring>
#include <string>

#include "core/noise.hpp"

namespace heliograph {
namespace {

/// Runs of rows in one task: enough that taking a task costs nothing beside it.
constexpr std::int64_t kRunsPerTask = 1024;

}  // namespace

HaloExchange::HaloExchange(Communicator& comm, Channel channel, const PlacedShard& shard,
                           const SendSchedule& schedule, const Codec& codec, std::int64_t cols,
                           Identity identity)
    : comm_(comm),
      channel_(channel),
      shard_(shard),
      plan_(shard.shard().adjacency(identity.direction).plan),
      schedule_(schedule),
      codec_(codec),
      cols_(cols),
      row_bytes_(codec.format().row_bytes(cols)),
      identity_(identity),
      bytes_per_start_(static_cast<std::int64_t>(codec.encoded_bytes(schedule.rows(), cols))) {
  receives_.reserve(plan_.peers.size());
}

void HaloExchange::post_receives(HaloSlot& slot) {
  std::byte* in = slot.receive_buffer(receive_bytes());
  receives_.clear();
  for (const HaloPlan::Peer& peer : plan_.peers) {
    const auto rows = static_cast<std::size_t>(peer.halo_end - peer.halo_begin);
    if (rows == 0) continue;
    receives_.push_back({peer.rank, in + static_cast<std::size_t>(peer.halo_begin) * row_bytes_,
                         rows * row_bytes_});
  }
  slot.post_receives(channel_, receives_);
}

/// Makes one message in its place in the send buffer, where earlier messages are complete.
UnencodableRow HaloExchange::encode(const SendSchedule::Message& message, ConstMatrixView rows,
                                    const float* row_scale, std::uint64_t stream, std::byte* buffer,
                                    ThreadPool& threads) const {
  const auto place = [&](const SendSchedule::Message& m, std::int64_t row) {
    return buffer + static_cast<std::size_t>(m.first_row + row) * row_bytes_;
  };
  std::byte* out = place(message, 0);
  if (message.encodes_all) {
    const RowSelection all{*message.send_rows, row_scale, shard_.global_ids()};
    return codec_.encode(rows, all, stream, out, threads);
  }
  for (const SendSchedule::Copies& copies : message.copies) {
    const SendSchedule::Message& source = schedule_.messages()[copies.message];
    threads.for_ranges(static_cast<std::int64_t>(copies.runs.size()), kRunsPerTask,
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t i = begin; i < end; ++i) {
                           const SendSchedule::Run& run = copies.runs[static_cast<std::size_t>(i)];
                           std::memcpy(place(message, run.to), place(source, run.from),
                                       static_cast<std::size_t>(run.rows) * row_bytes_);
                         }
                       });
  }
  const RowSelection fresh{message.new_rows, row_scale, shard_.global_ids(),
                           message.new_positions.data()};
  return codec_.encode(rows, fresh, stream, out, threads);
}

/// Makes all messages, which follow each other in the send buffer.
UnencodableRow HaloExchange::encode_all(ConstMatrixView rows, const float* row_scale,
                                        std::uint64_t stream, std::byte* buffer,
                                        ThreadPool& threads) const {
  const RowSelection all{schedule_.placed_rows(), row_scale, shard_.global_ids()};
  return codec_.encode(rows, all, stream, buffer, threads);
}

void HaloExchange::start(HaloSlot& slot, std::int64_t epoch, ConstMatrixView rows,
                         const float* row_scale, PhaseClock& clock) {
  Device& device = shard_.device();
  if (comm_.size() == 1) {  // A device need not be waited for, either.
    slot.user = this;
    ++starts_;
    return;
  }
  {
    const PhaseTimer timer(clock.exposed_comm);
    slot.wait_for_receives();
  }
  device.finish();                // Some may still read what the slot received before.
  if (comm_.sends_in_groups()) {  // Waiting would send off the receives alone.
    const PhaseTimer timer(clock.exposed_comm);
    slot.wait_for_sends();
  }
  post_receives(slot);
  slot.user = this;
  {
    const PhaseTimer timer(clock.exposed_comm);
    slot.wait_for_sends();
  }
  std::byte* buffer = slot.send_buffer(static_cast<std::size_t>(bytes_per_start_));
  const std::uint64_t stream =
      stream_key(identity_.seed, Purpose::rounding, epoch, identity_.layer, identity_.direction);
  const bool at_once = !device.on_host();
  if (at_once) {
    const PhaseTimer timer(clock.encode);
    const UnencodableRow bad = encode_all(rows, row_scale, stream, buffer, device.threads());
    if (bad.row >= 0) refuse(bad, epoch);
  }
  for (const SendSchedule::Message& message : schedule_.messages()) {
    if (!at_once) {
      const PhaseTimer timer(clock.encode);
      const UnencodableRow bad = encode(message, rows, row_scale, stream, buffer, device.threads());
      if (bad.row >= 0) refuse(bad, epoch);
    }
    slot.post_send(channel_,
                   {message.peer, buffer + static_cast<std::size_t>(message.first_row) * row_bytes_,
                    static_cast<std::size_t>(message.rows()) * row_bytes_});
  }
  comm_.flush();
  ++starts_;
}

PackedRows HaloExchange::finish(HaloSlot& slot, PhaseClock& clock) {
  if (slot.user != this) {
    throw Error(ErrorCode::usage, "layer " + std::to_string(identity_.layer) +
                                      ": another exchange was started in the slot of its halo");
  }
  if (comm_.size() == 1) return {slot.received(), 0, cols_, 0, codec_.format()};
  shard_.device().finish();  // What a device computes meanwhile is not waiting.
  {
    const PhaseTimer timer(clock.exposed_comm);
    slot.wait_for_receives();
  }
  return {slot.received(), plan_.halo_rows, cols_, 0, codec_.format()};
}

std::span<std::byte> HaloExchange::adopt(HaloSlot& slot) const {
  slot.user = this;
  return {slot.receive_buffer(receive_bytes()), receive_bytes()};
}

void HaloExchange::append_traffic(std::vector<LinkTraffic>& traffic) const {
  for (const HaloPlan::Peer& peer : plan_.peers) {
    const auto rows = static_cast<std::int64_t>(peer.send_rows.size());
    if (rows == 0) continue;
    LinkTraffic link;
    link.from = comm_.rank();
    link.to = peer.rank;
    link.layer = identity_.layer;
    link.backward = identity_.direction == Direction::backward ? 1 : 0;
    link.bytes = starts_ * static_cast<std::int64_t>(codec_.encoded_bytes(rows, cols_));
    link.fp32_bytes = starts_ * rows * cols_ * 4;
    traffic.push_back(link);
  }
}

void HaloExchange::refuse(const UnencodableRow& row, std::int64_t epoch) const {
  const std::string pass =
      identity_.direction == Direction::forward ? "features" : "feature gradients";
  const std::string what =
      row.col >= 0 ? "is " + std::to_string(row.value) + " in column " + std::to_string(row.col)
                   : std::string("spans more than the wire format holds");
  throw Error(ErrorCode::numeric,
              pass + " of layer " + std::to_string(identity_.layer) + ", node " +
                  std::to_string(shard_.shard().global_ids[static_cast<std::size_t>(row.row)]) +
                  ", epoch " + std::to_string(epoch) + ": the row " + what);
}

}  // namespace heliograph
