#include "staleness/stale_halo.hpp"

#include <algorithm>

namespace heliograph {

StaleHalo::StaleHalo(Communicator& comm, const PlacedShard& shard, const ExchangeOptions& options,
                     int layers, std::uint64_t seed, PhaseClock& clock, MemoryAccount* account)
    : comm_(comm),
      shard_(shard),
      options_(options),
      schedule_(options),
      seed_(seed),
      clock_(clock),
      account_(account),
      schedule_bytes_(MemoryRoom::graph, account),
      shared_slot_(comm, Channel::halo, shard.device(), MemoryRoom::halo, account),
      lanes_(2 * static_cast<std::size_t>(layers)),
      last_layer_(layers) {}

void StaleHalo::prepare(std::span<const HaloRows> exchanges) {
  std::size_t most_sent = 0, most_received = 0;
  for (const HaloRows& e : exchanges) {
    Lane& l = lane(e.layer, e.direction);
    open(l, e.layer, e.direction, e.cols, e.nonnegative);
    if (e.direction == Direction::backward) last_layer_ = std::min(last_layer_, e.layer);
    most_sent = std::max(most_sent, l.exchange->send_bytes());
    most_received = std::max(most_received, l.exchange->receive_bytes());
    for (HaloSlot& slot : l.ring) {
      slot.send_buffer(l.exchange->send_bytes());
      slot.receive_buffer(l.exchange->receive_bytes());
    }
  }
  if (schedule_.bound() > 0) return;
  shared_slot_.send_buffer(most_sent);
  shared_slot_.receive_buffer(most_received);
}

void StaleHalo::begin_epoch(std::int64_t epoch) {
  release();
  epoch_ = epoch;
  lag_ = schedule_.lag(epoch);
  comm_.set_progress({static_cast<int>(epoch), -1});
  if (lag_ == 0 && schedule_.bound() > 0) {
    const PhaseTimer timer(clock_.exposed_comm);
    drain();
  }
}

void StaleHalo::begin(int layer, Direction direction, ConstMatrixView rows, const float* row_scale,
                      bool nonnegative) {
  comm_.set_progress({static_cast<int>(epoch_), layer});
  Lane& l = lane(layer, direction);
  if (!l.exchange) open(l, layer, direction, rows.cols, nonnegative);
  HaloSlot& to = slot(l, epoch_);
  const bool last = direction == Direction::backward && layer == last_layer_;
  if (lag_ > 0 && last && !comm_.sends_in_groups()) {
    to.hold_sends();
    held_ = &to;
  }
  l.exchange->start(to, epoch_, rows, row_scale, clock_);
}

void StaleHalo::finish(int layer, Direction direction,
                       FunctionRef<void(const PackedRows&)> consume) {
  Lane& l = lane(layer, direction);
  const PackedRows packed = l.exchange->finish(slot(l, epoch_ - lag_), clock_);
  if (packed.rows > 0) consume(packed);
}

void StaleHalo::release() {
  if (held_ != nullptr) held_->release_sends();
  held_ = nullptr;
}

void StaleHalo::drain() {
  release();
  const auto wait = [](HaloSlot& slot) {
    slot.wait_for_receives();
    slot.wait_for_sends();
  };
  wait(shared_slot_);
  for (Lane& l : lanes_) {
    for (HaloSlot& slot : l.ring) wait(slot);
  }
}

template <class Visit>
void StaleHalo::visit_rings(std::int64_t first, std::int64_t last, Visit visit) {
  if (schedule_.bound() == 0) return;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    Lane& l = lanes_[i];
    if (!l.exchange) continue;
    for (std::int64_t epoch = first; epoch <= last; ++epoch) {
      visit(static_cast<int>(i / 2), static_cast<Direction>(i % 2), epoch, *l.exchange,
            slot(l, epoch));
    }
  }
}

std::vector<StaleHalo::Received<const std::byte>> StaleHalo::received(std::int64_t first,
                                                                      std::int64_t last) {
  drain();
  std::vector<Received<const std::byte>> all;
  visit_rings(first, last,
              [&](int layer, Direction direction, std::int64_t epoch, const HaloExchange& exchange,
                  const HaloSlot& slot) {
                all.push_back({layer, direction, epoch, exchange.received(slot)});
              });
  return all;
}

std::vector<StaleHalo::Received<std::byte>> StaleHalo::adopt(std::int64_t first,
                                                             std::int64_t last) {
  std::vector<Received<std::byte>> all;
  visit_rings(first, last,
              [&](int layer, Direction direction, std::int64_t epoch, const HaloExchange& exchange,
                  HaloSlot& slot) {
                all.push_back({layer, direction, epoch, exchange.adopt(slot)});
              });
  return all;
}

std::vector<std::int64_t> StaleHalo::posted() const {
  std::vector<std::int64_t> counts;
  counts.reserve(lanes_.size());
  for (const Lane& l : lanes_) counts.push_back(l.exchange ? l.exchange->starts() : 0);
  return counts;
}

void StaleHalo::set_posted(std::span<const std::int64_t> counts) {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i].exchange) lanes_[i].exchange->set_starts(counts[i]);
  }
}

void StaleHalo::open(Lane& lane, int layer, Direction direction, std::int64_t cols,
                     bool nonnegative) {
  const int bits = direction == Direction::forward ? options_.bits_forward : options_.bits_backward;
  lane.codec = make_codec({bits, bits <= 8 && !nonnegative}, shard_.device());
  // A device encodes all rows in one go.
  const bool share_rows = bits < 32 && shard_.device().on_host();
  lane.exchange = std::make_unique<HaloExchange>(
      comm_, Channel::halo, shard_, send_schedule(direction, share_rows), *lane.codec, cols,
      HaloExchange::Identity{layer, direction, seed_});
  if (schedule_.bound() == 0) return;
  for (int i = 0; i <= schedule_.bound(); ++i) {
    lane.ring.emplace_back(comm_, Channel::halo, shard_.device(), MemoryRoom::halo, account_);
  }
}

HaloSlot& StaleHalo::slot(Lane& lane, std::int64_t epoch) {
  if (schedule_.bound() == 0) return shared_slot_;
  return lane.ring[static_cast<std::size_t>(epoch % (schedule_.bound() + 1))];
}

const SendSchedule& StaleHalo::send_schedule(Direction direction, bool share_rows) {
  const Shard& shard = shard_.shard();
  const bool transposed = direction == Direction::backward && shard.out.has_value();
  auto& schedule = send_schedules_[(transposed ? 2U : 0U) + (share_rows ? 1U : 0U)];
  if (!schedule) {
    schedule = std::make_unique<SendSchedule>(shard.adjacency(direction).plan, shard.rank,
                                              shard.ranks, share_rows);
    schedule->place(shard_.device(), MemoryRoom::graph, account_);
    std::int64_t bytes = 0;
    for (const auto& made : send_schedules_) bytes += made ? made->bytes() : 0;
    schedule_bytes_.set(bytes);
  }
  return *schedule;
}

std::int64_t StaleHalo::bytes_sent(Direction direction) const {
  std::int64_t sum = 0;
  for (std::size_t i = static_cast<std::size_t>(direction); i < lanes_.size(); i += 2) {
    if (lanes_[i].exchange) sum += lanes_[i].exchange->bytes_sent();
  }
  return sum;
}

std::int64_t StaleHalo::fp32_bytes_sent() const {
  std::int64_t sum = 0;
  for (const Lane& l : lanes_) {
    if (l.exchange) sum += l.exchange->fp32_bytes_sent();
  }
  return sum;
}

std::vector<LinkTraffic> StaleHalo::traffic() const {
  std::vector<LinkTraffic> all;
  for (const Lane& l : lanes_) {
    if (l.exchange) l.exchange->append_traffic(all);
  }
  return all;
}

StaleHalo::Lane& StaleHalo::lane(int layer, Direction direction) {
  return lanes_[2 * static_cast<std::size_t>(layer) + static_cast<std::size_t>(direction)];
}

}  // namespace heliograph
