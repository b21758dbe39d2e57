#include "comm/halo_exchange.hpp"

#include <string>

#include "core/noise.hpp"

namespace heliograph {

HaloExchange::HaloExchange(Communicator& comm, Channel channel, const HaloPlan& plan,
                           const Codec& codec, std::int64_t cols, int slots, Identity identity,
                           const std::vector<std::int64_t>& global_ids, MemoryRoom room,
                           MemoryAccount* account)
    : comm_(comm),
      channel_(channel),
      plan_(plan),
      codec_(codec),
      cols_(cols),
      identity_(identity),
      global_ids_(global_ids),
      slots_(static_cast<std::size_t>(slots)) {
  const std::size_t row_bytes = codec.format().row_bytes(cols);
  for (Slot& slot : slots_) {
    slot.send = Buffer(codec.encoded_bytes(plan.send_rows(), cols), room, account);
    slot.receive = Buffer(codec.encoded_bytes(plan.halo_rows, cols), room, account);
    std::byte* out = slot.send.data();
    for (const HaloPlan::Peer& peer : plan.peers) {
      const std::size_t send_bytes = peer.send_rows.size() * row_bytes;
      if (send_bytes > 0) slot.sends.push_back({peer.rank, out, send_bytes});
      out += send_bytes;
      const auto rows = static_cast<std::size_t>(peer.halo_end - peer.halo_begin);
      if (rows > 0) {
        slot.receives.push_back(
            {peer.rank, slot.receive.data() + static_cast<std::size_t>(peer.halo_begin) * row_bytes,
             rows * row_bytes});
      }
    }
  }
  bytes_per_start_ = static_cast<std::int64_t>(codec.encoded_bytes(plan.send_rows(), cols));
}

HaloExchange::~HaloExchange() {
  for (const Slot& slot : slots_) {
    if (slot.in_flight) comm_.abort("the run ended with halos in flight");
  }
}

void HaloExchange::wait(Slot& slot) {
  if (!slot.in_flight) return;
  comm_.wait(slot.ticket);
  slot.in_flight = false;
}

void HaloExchange::start(int slot_index, std::int64_t epoch, ConstMatrixView rows,
                         const float* row_scale, ThreadPool& threads, PhaseClock& clock) {
  Slot& slot = slots_[static_cast<std::size_t>(slot_index)];
  {
    const PhaseTimer timer(clock.exposed_comm);
    wait(slot);
  }
  {
    const PhaseTimer timer(clock.encode);
    const std::uint64_t stream =
        stream_key(identity_.seed, Purpose::rounding, epoch, identity_.layer, identity_.direction);
    std::byte* out = slot.send.data();
    for (const HaloPlan::Peer& peer : plan_.peers) {
      const RowSelection selection{peer.send_rows, row_scale, global_ids_.data()};
      const UnencodableRow bad = codec_.encode(rows, selection, stream, out, threads);
      if (bad.row >= 0) refuse(bad, epoch);
      out += codec_.encoded_bytes(static_cast<std::int64_t>(peer.send_rows.size()), cols_);
    }
  }
  slot.ticket = comm_.post(channel_, slot.sends, slot.receives);
  slot.in_flight = true;
  ++starts_;
}

PackedRows HaloExchange::finish(int slot_index, PhaseClock& clock) {
  Slot& slot = slots_[static_cast<std::size_t>(slot_index)];
  {
    const PhaseTimer timer(clock.exposed_comm);
    wait(slot);
  }
  return {slot.receive.data(), plan_.halo_rows, cols_, 0, codec_.format()};
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

void HaloExchange::drain() {
  for (Slot& slot : slots_) wait(slot);
}

void HaloExchange::refuse(const UnencodableRow& row, std::int64_t epoch) const {
  const std::string pass =
      identity_.direction == Direction::forward ? "features" : "feature gradients";
  const std::string what =
      row.col >= 0 ? "is " + std::to_string(row.value) + " in column " + std::to_string(row.col)
                   : std::string("spans more than the wire format holds");
  throw Error(ErrorCode::numeric,
              pass + " of layer " + std::to_string(identity_.layer) + ", node " +
                  std::to_string(global_ids_[static_cast<std::size_t>(row.row)]) + ", epoch " +
                  std::to_string(epoch) + ": the row " + what);
}

}  // namespace heliograph
