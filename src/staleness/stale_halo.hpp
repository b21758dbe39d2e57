#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/exchange/halo_exchange.hpp"
#include "core/halo.hpp"
#include "staleness/exchange_policy.hpp"

namespace heliograph {

/// The bounded-staleness adaptor: the halo of a training pass. In each epoch every site posts its
/// boundary rows; what it gets back are the halo rows of epoch e - lag(e). Messages stay in
/// flight across epochs, at most S + 1 for each site. With S = 0 a halo is consumed before the next
/// one is opened, so all of them share one send and one receive buffer.
/// Used by the rank's own thread.
class StaleHalo final : public Halo {
 public:
  /// Makes the exchanges of `sites`, whose ids are their places, and all buffers. All but `policy`
  /// and `sites`, which are copied, must outlive the object.
  StaleHalo(Communicator& comm, const PlacedShard& shard, const ExchangePolicy& policy,
            std::span<const Site> sites, std::uint64_t seed, PhaseClock& times,
            MemoryAccount* account);

  /// Must be called, with epochs in order, before the passes of an epoch. A synchronous epoch
  /// first waits for whatever is in flight.
  void begin_epoch(Clock clock);

  /// As Halo says; with S = 0, finish must have consumed the last halo before the next open.
  void open(const Site& site, const OfferedRows& rows) override;
  void offer(const Site& site, RowRange rows) override;
  void finish(const Site& site, FunctionRef<void(const PackedRows&)> consume) override;

  /// What a stale epoch sends last is needed an epoch later, but its weight gradients and
  /// statistics at once, and on a slow link they would queue behind it. So it is held back until
  /// this is called at the end of the epoch, or another exchange opens, or the next epoch begins.
  void release();

  /// Waits for everything in flight; called at the end of a run.
  void drain();

  /// Packed rows that an epoch has received at one site.
  template <class Byte>
  struct Received {
    const Site& site;
    std::int64_t epoch;
    std::span<Byte> rows;
  };
  /// What epochs `first` to `last` have received and rings still hold, valid until the next epoch
  /// begins; nothing with S = 0. Waits for what is in flight.
  std::vector<Received<const std::byte>> received(std::int64_t first, std::int64_t last);
  /// Place for what an earlier run had received in these epochs, in the same order; to be filled
  /// before the epoch `last` + 1 begins.
  std::vector<Received<std::byte>> adopt(std::int64_t first, std::int64_t last);

  /// What each site has sent so far; set to go on from an earlier run.
  std::vector<SentRows> sent() const;
  void set_sent(std::span<const SentRows> sent);

  /// Age, in epochs, of the halo values that the current epoch uses.
  int lag() const { return policy_.lag(clock_); }
  const ExchangePolicy& policy() const { return policy_; }

  /// Bytes posted so far, and the same rows at 4 bytes a value.
  std::int64_t bytes_sent(Direction direction) const;
  std::int64_t fp32_bytes_sent() const;
  /// What this rank has posted, by site and receiver.
  std::vector<LinkTraffic> traffic() const;

 private:
  struct Lane {
    std::unique_ptr<HaloExchange> exchange;
    std::deque<HaloSlot> ring;  ///< None where slots are shared.
  };

  /// visit(epoch, exchange, slot) for each epoch of each ring.
  template <class Visit>
  void visit_rings(std::int64_t first, std::int64_t last, Visit visit);
  Lane& lane(const Site& site) { return lanes_[static_cast<std::size_t>(site.id)]; }
  /// The slot into which `epoch` posts.
  HaloSlot& slot(Lane& lane, std::int64_t epoch);
  const Codec& codec(RowFormat format);
  const SendSchedule& send_schedule(const HaloPlan& plan, bool share_rows);

  Communicator& comm_;
  const PlacedShard& shard_;
  ExchangePolicy policy_;
  PhaseClock& times_;
  MemoryAccount* account_;
  std::vector<std::unique_ptr<Codec>> codecs_;  ///< One for each format that was met.
  struct PlanSchedule {
    const HaloPlan* plan;
    bool shares_rows;
    std::unique_ptr<SendSchedule> schedule;
  };
  std::vector<PlanSchedule> send_schedules_;
  CountedBytes schedule_bytes_;
  HaloSlot shared_slot_;  ///< Of all sites, where policy_.slots() is 1.
  std::vector<Lane> lanes_;
  Clock clock_;
  int last_site_ = -1;        ///< The one that sends last in an epoch.
  HaloSlot* held_ = nullptr;  ///< Holds back what this epoch sends last.
};

}  // namespace heliograph
