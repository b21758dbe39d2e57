#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/halo_exchange.hpp"
#include "core/halo.hpp"
#include "staleness/schedule.hpp"

namespace heliograph {

/// The bounded-staleness adaptor: the halo of a training pass. In each epoch every layer posts its
/// boundary rows; what it gets back are the halo rows of epoch e - lag(e). Messages stay in
/// flight across epochs, at most S + 1 for each (layer, direction).
/// Used by the rank's own thread.
class StaleHalo final : public Halo {
 public:
  /// References must outlive the object. Exchanges are made on their first use, in epoch 0.
  StaleHalo(Communicator& comm, const Shard& shard, const ExchangeOptions& options, int layers,
            std::uint64_t seed, ThreadPool& threads, PhaseClock& clock, MemoryAccount* account);

  /// Must be called, with epochs in order, before the passes of an epoch. A synchronous epoch
  /// first waits for whatever is in flight.
  void begin_epoch(std::int64_t epoch);

  void begin(int layer, Direction direction, ConstMatrixView rows, const float* row_scale,
             bool nonnegative) override;
  void finish(int layer, Direction direction,
              FunctionRef<void(const PackedRows&)> consume) override;

  /// Waits for everything in flight; called at the end of a run.
  void drain();

  /// Age, in epochs, of the halo values that the current epoch uses.
  int lag() const { return lag_; }
  const StalenessSchedule& schedule() const { return schedule_; }

  /// Bytes posted so far, and the same rows at 4 bytes a value.
  std::int64_t bytes_sent(Direction direction) const;
  std::int64_t fp32_bytes_sent() const;
  /// What this rank has posted, by layer, direction and receiver.
  std::vector<LinkTraffic> traffic() const;

 private:
  struct Lane {
    std::unique_ptr<Codec> codec;
    std::unique_ptr<HaloExchange> exchange;
  };

  Lane& lane(int layer, Direction direction);

  Communicator& comm_;
  const Shard& shard_;
  ExchangeOptions options_;
  StalenessSchedule schedule_;
  std::uint64_t seed_;
  ThreadPool& threads_;
  PhaseClock& clock_;
  MemoryAccount* account_;
  std::vector<Lane> lanes_;
  std::int64_t epoch_ = 0;
  int lag_ = 0;
};

}  // namespace heliograph
