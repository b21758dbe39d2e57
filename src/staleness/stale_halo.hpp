#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/halo_exchange.hpp"
#include "core/halo.hpp"
#include "staleness/schedule.hpp"

namespace heliograph {

/// The bounded-staleness adaptor: the halo of a training pass. In each epoch every layer posts its
/// boundary rows; what it gets back are the halo rows of epoch e - lag(e). Messages stay in
/// flight across epochs, at most S + 1 for each (layer, direction). With S = 0 a halo is consumed
/// before the next one is started, so all of them share one send and one receive buffer.
/// Used by the rank's own thread.
class StaleHalo final : public Halo {
 public:
  /// References must outlive the object.
  StaleHalo(Communicator& comm, const PlacedShard& shard, const ExchangeOptions& options,
            int layers, std::uint64_t seed, PhaseClock& clock, MemoryAccount* account);

  /// Makes the exchanges of a pass and their buffers; those that it leaves out are made on their
  /// first use. At most once, before the first epoch.
  void prepare(std::span<const HaloRows> exchanges);

  /// Must be called, with epochs in order, before the passes of an epoch. A synchronous epoch
  /// first waits for whatever is in flight.
  void begin_epoch(std::int64_t epoch);

  /// As Halo says; with S = 0, finish must have consumed the last halo before the next begin.
  void begin(int layer, Direction direction, ConstMatrixView rows, const float* row_scale,
             bool nonnegative) override;
  void finish(int layer, Direction direction,
              FunctionRef<void(const PackedRows&)> consume) override;

  /// What a stale epoch sends last is needed an epoch later, but its weight gradients and
  /// statistics at once, and on a slow link they would queue behind it. So it is held back until
  /// this is called at the end of the epoch, or the next one begins.
  void release();

  /// Waits for everything in flight; called at the end of a run.
  void drain();

  /// Packed rows that an epoch has received in one (layer, direction).
  template <class Byte>
  struct Received {
    int layer;
    Direction direction;
    std::int64_t epoch;
    std::span<Byte> rows;
  };
  /// What epochs `first` to `last` have received and rings still hold, valid until the next epoch
  /// begins; nothing with S = 0. Waits for what is in flight.
  std::vector<Received<const std::byte>> received(std::int64_t first, std::int64_t last);
  /// Place for what an earlier run had received in these epochs, in the same order; to be filled
  /// before the epoch `last` + 1 begins. The exchanges must have been prepared.
  std::vector<Received<std::byte>> adopt(std::int64_t first, std::int64_t last);

  /// How often each (layer, direction) was posted, layer by layer, forward first.
  std::vector<std::int64_t> posted() const;
  /// Goes on from an earlier run's counts, as `posted` gave them.
  void set_posted(std::span<const std::int64_t> counts);

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
    std::deque<HaloSlot> ring;  ///< S + 1 slots; none where slots are shared.
  };

  /// visit(layer, direction, epoch, exchange, slot) for each epoch of each ring.
  template <class Visit>
  void visit_rings(std::int64_t first, std::int64_t last, Visit visit);
  Lane& lane(int layer, Direction direction);
  void open(Lane& lane, int layer, Direction direction, std::int64_t cols, bool nonnegative);
  /// The slot into which `epoch` posts.
  HaloSlot& slot(Lane& lane, std::int64_t epoch);
  const SendSchedule& send_schedule(Direction direction, bool share_rows);

  Communicator& comm_;
  const PlacedShard& shard_;
  ExchangeOptions options_;
  StalenessSchedule schedule_;
  std::uint64_t seed_;
  PhaseClock& clock_;
  MemoryAccount* account_;
  /// By direction of the plan and by whether rows are shared; made on first use.
  std::array<std::unique_ptr<SendSchedule>, 4> send_schedules_;
  CountedBytes schedule_bytes_;
  HaloSlot shared_slot_;  ///< S = 0.
  std::vector<Lane> lanes_;
  std::int64_t epoch_ = 0;
  int lag_ = 0;
  int last_layer_;            ///< Whose backward exchange is an epoch's last, once prepared.
  HaloSlot* held_ = nullptr;  ///< Holds back what this epoch sends last.
};

}  // namespace heliograph
