#include "staleness/stale_halo.hpp"

namespace heliograph {

StaleHalo::StaleHalo(Communicator& comm, const Shard& shard, const ExchangeOptions& options,
                     int layers, std::uint64_t seed, ThreadPool& threads, PhaseClock& clock,
                     MemoryAccount* account)
    : comm_(comm),
      shard_(shard),
      options_(options),
      schedule_(options),
      seed_(seed),
      threads_(threads),
      clock_(clock),
      account_(account),
      lanes_(2 * static_cast<std::size_t>(layers)) {}

void StaleHalo::begin_epoch(std::int64_t epoch) {
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
  if (!l.exchange) {
    const int bits =
        direction == Direction::forward ? options_.bits_forward : options_.bits_backward;
    l.codec = make_cpu_codec({bits, bits <= 8 && !nonnegative});
    l.exchange = std::make_unique<HaloExchange>(
        comm_, Channel::halo, shard_.adjacency(direction).plan, *l.codec, rows.cols,
        schedule_.bound() + 1, HaloExchange::Identity{layer, direction, seed_}, shard_.global_ids,
        MemoryRoom::halo, account_);
  }
  const auto slot = static_cast<int>(epoch_ % (schedule_.bound() + 1));
  l.exchange->start(slot, epoch_, rows, row_scale, threads_, clock_);
}

void StaleHalo::finish(int layer, Direction direction,
                       FunctionRef<void(const PackedRows&)> consume) {
  Lane& l = lane(layer, direction);
  const auto slot = static_cast<int>((epoch_ - lag_) % (schedule_.bound() + 1));
  const PackedRows packed = l.exchange->finish(slot, clock_);
  if (packed.rows > 0) consume(packed);
}

void StaleHalo::drain() {
  for (Lane& l : lanes_) {
    if (l.exchange) l.exchange->drain();
  }
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
