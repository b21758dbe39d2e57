#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/exchange/halo_exchange.hpp"
#include "core/halo.hpp"
#include "staleness/bit_chooser.hpp"
#include "staleness/exchange_policy.hpp"

namespace heliograph {

/// The bounded-staleness adaptor (Sylvie, arXiv 2303.01277): the halo of a training pass. In epoch
/// e every site posts its boundary rows and receives the halo rows of epoch e - lag(e). Messages
/// stay in flight across epochs, at most S + 1 for each site. With S = 0 a halo is consumed before
/// the next one is opened, so all sites share one send buffer and one receive buffer. Where rows
/// are made in blocks, the next one is opened before: then sites take turns with two of each. Only
/// the rank's own thread may use it.
class StaleHalo final : public Halo {
 public:
  /// Makes the exchanges of `sites` and all buffers; site i must have id i. `policy` and `sites`
  /// are copied; the other arguments must outlive the object. The rows for a peer travel in up to
  /// `pieces` messages, as many on every rank. `scales`: of the sums that read the halo; null if
  /// rows keep the bits that `set_bits` gives them.
  StaleHalo(Communicator& comm, const PlacedShard& shard, const ExchangePolicy& policy,
            std::span<const Site> sites, int pieces, std::uint64_t seed, PhaseClock& times,
            MemoryAccount* account, const SumScales* scales = nullptr);

  /// Begins an epoch. Call it before the passes of each epoch, with ascending epochs; passes that
  /// are to be made again begin the same epoch again. In a synchronous epoch it first waits for all
  /// messages in flight.
  void begin_epoch(Clock clock);

  /// Opens an exchange as Halo::open does. With S = 0 and one piece, `finish` must have consumed
  /// the last halo before the next `open`.
  void open(const Site& site, const OfferedRows& rows) override;
  void offer(const Site& site, RowRange rows) override;
  void finish(const Site& site, FunctionRef<void(const PackedRows&)> consume) override;
  std::optional<PackedRows> received(const Site& site) override;
  std::int64_t source_epoch(const Site& site, std::int64_t epoch) const override {
    return epoch - policy_.of(site, {epoch}).lag;
  }

  /// A row that a device could not encode.
  struct NotedRow {
    std::int64_t exchange = 0;  ///< The number of the exchange among those of the epoch, from 0.
    std::int64_t node = 0;
  };
  /// The first such row of this epoch on this rank that was not refused at once. Call it when the
  /// device is done.
  std::optional<NotedRow> noted_row() const;
  /// The site of an exchange of this epoch.
  const Site& site_of(std::int64_t exchange) const {
    return site_halos_[static_cast<std::size_t>(opened_[static_cast<std::size_t>(exchange)])]
        .exchange->site();
  }

  KeptRows kept(const Site& site, std::int64_t epoch) override;

  /// Whether rows have other bits than the fewest, from the second epoch on.
  bool chooses_bits() const { return bit_chooser_.has_value(); }
  /// BitChooser::bytes_over_budget, if bits could be chosen.
  double bytes_over_budget() const { return bytes_over_budget_; }
  /// Ends an epoch whose passes are done: if it chooses bits, chooses those of later epochs' rows.
  /// Collective. Throws Error: peer_lost.
  void end_epoch();

  /// The bits of inner and halo rows of one site (HaloExchange::bits).
  struct SiteBits {
    const Site& site;
    std::vector<std::uint8_t> bits;
  };
  /// Those of all sites whose rows choose them.
  std::vector<SiteBits> bits() const;
  /// The bits of all rows that the rank sends at a site in an epoch, added up, and their number.
  std::array<double, 2> bits_sent(const Site& site) const;
  /// Sets those of one site, before an epoch begins.
  void set_bits(const Site& site, std::vector<std::uint8_t> bits) {
    halo_of(site).exchange->set_bits(std::move(bits));
  }

  /// Sends the rows that are held back. If all sites are late, a stale epoch holds back the rows
  /// that it sends last, which are needed an epoch later, so that weight gradients and statistics
  /// do not queue behind them on a slow link. If others are not, the next epoch's would queue
  /// instead. Call it at the end of an epoch; `open` and `begin_epoch` call it too.
  void release();

  /// Waits for all messages in flight. Call it at the end of a run.
  void drain();

  /// The packed rows that one site has received or sent in one epoch.
  template <class Byte>
  struct HeldRows {
    const Site& site;
    std::int64_t epoch;
    std::span<Byte> rows;
  };
  /// The rows of epochs `first` to `last` that the rings still hold, valid until the next epoch
  /// begins; empty with S = 0. Waits for all messages in flight.
  std::vector<HeldRows<const std::byte>> received(std::int64_t first, std::int64_t last);
  /// Memory for the rows that an earlier run has received in these epochs, in the order of
  /// `received`. Fill it before epoch `last` + 1 begins.
  std::vector<HeldRows<std::byte>> adopt(std::int64_t first, std::int64_t last);

  /// The memory of `kept` of every site for each epoch that the passes of `epoch` and later ones
  /// may still read, up to epoch - 1.
  std::vector<HeldRows<std::byte>> kept_before(std::int64_t epoch);

  /// How much has been sent so far: HaloExchange::sent of one site after the other. A resumed run
  /// sets the counts of the earlier run.
  std::vector<std::int64_t> sent() const;
  void set_sent(std::span<const std::int64_t> sent);
  /// Whether these may be the counts of so many epochs.
  bool sent_fits(std::span<const std::int64_t> sent, std::int64_t epochs) const;

  /// Age, in epochs, of the halo values that the current epoch uses.
  int lag() const { return policy_.lag(clock_); }
  const ExchangePolicy& policy() const { return policy_; }

  /// Bytes that this rank has posted so far in one direction.
  std::int64_t bytes_sent(Direction direction) const;
  /// Bytes that all posted rows would take at 4 bytes a value.
  std::int64_t fp32_bytes_sent() const;
  /// The traffic that this rank has posted, by site and receiver.
  std::vector<LinkTraffic> traffic() const;

 private:
  struct SiteHalo {
    const SendSchedule* schedule = nullptr;
    std::unique_ptr<HaloExchange> exchange;
    std::deque<HaloSlot> ring;       ///< One slot for each epoch held; empty if sites share slots.
    int turn = 0;                    ///< Which of the shared buffers the last exchange uses.
    std::optional<PackedRows> rows;  ///< What it has received, as `received` returns it.
    bool keeps = false;              ///< Whether what was sent stays in the ring (Halo::kept).
  };

  /// Calls visit(epoch, exchange, slot) for each epoch from `first` to `last` of each ring.
  template <class Visit>
  void visit_rings(std::int64_t first, std::int64_t last, Visit visit);
  SiteHalo& halo_of(const Site& site) { return site_halos_[static_cast<std::size_t>(site.id)]; }
  /// The place of a site in what sites share.
  static std::size_t shared_place(const Site& site, int turn) {
    return 2 * static_cast<std::size_t>(turn) + (site.partial_sums ? 1 : 0);
  }
  /// How many exchanges of rows may be open at a time.
  int turns() const { return pieces_ > 1 ? 2 : 1; }
  PackedRows wait_for(SiteHalo& halo);
  /// The slot that a site uses in `epoch`.
  HaloSlot& slot(SiteHalo& halo, std::int64_t epoch);
  SendSchedule& send_schedule(const HaloPlan& plan, bool share_rows);

  Communicator& comm_;
  const PlacedShard& shard_;
  ExchangePolicy policy_;
  int pieces_;
  PhaseClock& times_;
  MemoryAccount* account_;
  Codecs codecs_;
  struct PlanSchedule {
    const HaloPlan* plan;
    bool shares_rows;
    std::unique_ptr<SendSchedule> schedule;
  };
  std::vector<PlanSchedule> send_schedules_;
  CountedBytes schedule_bytes_;
  MemoryAccount page_locked_;
  bool thins_;       ///< Whether any site leaves out columns or bits.
  bool holds_back_;  ///< Whether stale epochs hold back what they send last.
  /// By site, RowSelection::failed; empty if no device orders messages. Declared before the slots,
  /// since freeing it may wait for messages in flight, which they end.
  Buffer failed_;
  /// The packed rows that an exchange with kept columns is sending, and those that it has received
  /// by shared_place(); with one turn, they are in `packed_` too.
  Buffer packed_;
  std::vector<Buffer> expanded_;
  /// The slots of exchanges without a ring, by shared_place().
  std::deque<HaloSlot> shared_slots_;
  std::vector<SiteHalo> site_halos_;
  std::optional<BitChooser> bit_chooser_;
  double bytes_over_budget_ = 0;
  std::vector<std::vector<float>> ranges_;  ///< By site, in an epoch that chooses bits.
  std::vector<int> opened_;                 ///< The sites of this epoch's exchanges, in order.
  Clock clock_;
  int turn_ = 0;                 ///< Of the last exchange of rows.
  int last_site_ = -1;           ///< The site that sends last in an epoch.
  int last_sums_ = -1;           ///< That of its partial sums, if it has any.
  std::vector<HaloSlot*> held_;  ///< The slots whose sends are held back.
};

}  // namespace heliograph
