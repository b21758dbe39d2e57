#include "staleness/stale_halo.hpp"

#include <algorithm>

#include "staleness/degree_bits.hpp"

namespace heliograph {

StaleHalo::StaleHalo(Communicator& comm, const PlacedShard& shard, const ExchangePolicy& policy,
                     std::span<const Site> sites, int pieces, std::uint64_t seed, PhaseClock& times,
                     MemoryAccount* account, const SumScales* scales)
    : comm_(comm),
      shard_(shard),
      policy_(policy),
      pieces_(pieces),
      times_(times),
      account_(account),
      codecs_(shard.device()),
      schedule_bytes_(MemoryUse::graph, account),
      page_locked_(shard.device().page_locked()),
      thins_(std::ranges::any_of(sites, [&](const Site& s) { return policy.thins(s); })),
      holds_back_(!comm.sends_in_groups() &&
                  std::ranges::all_of(sites, [&](const Site& s) { return policy.late(s); })) {
  const auto add_slot = [&](std::deque<HaloSlot>& slots, std::size_t sent, std::size_t received) {
    HaloSlot& slot =
        slots.emplace_back(comm, Channel::halo, shard.device(), MemoryUse::halo, account, pieces);
    slot.send_buffer(sent);
    slot.receive_buffer(received);
  };
  std::array<std::size_t, 2> most_sent{}, most_received{}, most_expanded{};
  std::size_t most_packed = 0;
  for (const Site& site : sites) {
    // Backward passes usually visit the sites in descending order of id.
    if (site.direction == Direction::backward && last_site_ < 0) {
      last_site_ = site.id;
      last_sums_ = site.sums == nullptr ? -1 : site.sums->id;
    }
    const HaloPlan& plan = policy.plan(site, shard.shard());
    // On the host, a row that several ranks need is encoded once; a device encodes it for each.
    const bool share_rows = policy.of(site, {}).format.bits < 32 && shard.device().on_host();
    SendSchedule& schedule = send_schedule(plan, share_rows);
    const auto row_bytes = policy.most_row_bytes(site);
    const std::size_t sent = static_cast<std::size_t>(schedule.rows()) * row_bytes;
    const std::size_t received = static_cast<std::size_t>(plan.halo_rows) * row_bytes;
    SiteHalo& halo = site_halos_.emplace_back();
    halo.schedule = &schedule;
    Site sending = site;
    if (!policy.keeps_columns(site)) sending.dropped = {};  // All columns travel.
    halo.exchange =
        std::make_unique<HaloExchange>(comm, shard, plan, schedule, std::move(sending), seed);
    if (policy.thins(site)) {
      halo.exchange->keep_columns(policy.of(site, {}).format, policy.slots(site), packed_, account);
      std::size_t& expanded = turns() == 1 ? most_packed : most_expanded[shared_place(site, 0)];
      if (policy.varies(site)) {
        const int fewest = policy.fewest_bits(site);
        if (policy.by_degree() && scales != nullptr) {
          halo.exchange->tell_bits(bits_by_degree(plan, shard.shard(), fewest),
                                   Channel::evaluation);
        } else {
          const auto rows =
              static_cast<std::size_t>(plan.inner_rows) + static_cast<std::size_t>(plan.halo_rows);
          halo.exchange->set_bits(
              std::vector<std::uint8_t>(rows, static_cast<std::uint8_t>(fewest)));
        }
      }
      most_packed = std::max(most_packed, sent);
      expanded = std::max(expanded, received);
    }
    const std::int64_t kept = policy.kept_slots(site);
    halo.keeps = kept > 0;
    const std::int64_t held = policy.slots(site), slots = halo.keeps ? kept : held > 1 ? held : 0;
    for (std::int64_t i = 0; i < slots; ++i) add_slot(halo.ring, sent, received);
    if (halo.keeps) schedule.list_distinct_rows(shard.device(), MemoryUse::graph, account);
    if (slots > 0) continue;
    const std::size_t shared = shared_place(site, 0);
    most_sent[shared] = std::max(most_sent[shared], sent);
    most_received[shared] = std::max(most_received[shared], received);
  }
  if (most_packed > 0) packed_ = Buffer(most_packed, MemoryUse::halo, account);
  for (int turn = 0; turn < turns(); ++turn) {
    for (const std::size_t kind : {0U, 1U}) {
      if (turns() > 1) expanded_.emplace_back(most_expanded[kind], MemoryUse::halo, account);
      // Not in use if rings hold all sites' rows.
      add_slot(shared_slots_, most_sent[kind], most_received[kind]);
    }
  }
  if (policy.budget() && scales != nullptr && comm.size() > 1) {
    bit_chooser_.emplace(comm, shard.shard(), policy_, sites, *scales, account);
    bytes_over_budget_ = bit_chooser_->bytes_over_budget();
    if (!bit_chooser_->spends()) bit_chooser_.reset();
    ranges_.resize(sites.size());
  }
  std::int64_t bytes = 0;
  for (const PlanSchedule& made : send_schedules_) bytes += made.schedule->bytes();
  schedule_bytes_.set(bytes);
  held_.reserve(2);  // The last site's rows and partial sums.
  opened_.reserve(sites.size());
  if (shared_slots_[0].in_order()) {
    failed_ = Buffer(sites.size() * sizeof(std::int32_t), MemoryUse::workspace, &page_locked_);
    for (std::size_t i = 0; i < sites.size(); ++i) {
      site_halos_[i].exchange->note_in(&failed_.as<std::int32_t>()[i]);
    }
  }
  // An epoch ends with a wait for what its passes have read, so no more are in flight.
  std::size_t exchanges = sites.size();
  for (const SiteHalo& h : site_halos_) exchanges += h.ring.size();
  // A peer gets as many messages an exchange as there are pieces.
  comm_.expect_messages(exchanges * static_cast<std::size_t>(pieces_));
}

void StaleHalo::begin_epoch(Clock clock) {
  release();
  clock_ = clock;
  opened_.clear();
  comm_.set_progress({static_cast<int>(clock.epoch), -1});
  if (policy_.stale() && policy_.synchronous(clock)) {
    const PhaseTimer timer(times_.exposed_comm);
    drain();
  }
  if (!thins_) return;
  const PhaseTimer timer(times_.encode);
  for (const SiteHalo& h : site_halos_) h.exchange->draw_columns(clock);
  shard_.device().finish();  // The host must know how long messages are.
}

void StaleHalo::open(const Site& site, const OfferedRows& rows) {
  // The last exchange of an epoch also sends its partial sums last.
  const bool last = site.id == last_site_ || site.id == last_sums_;
  // Messages are matched by their order, so none may overtake those held back.
  if (!last) release();
  comm_.set_progress({static_cast<int>(clock_.epoch), site.layer});
  const Delivery delivery = policy_.of(site, clock_);
  SiteHalo& halo = halo_of(site);
  if (!site.partial_sums) turn_ = (turn_ + 1) % turns();
  halo.turn = turn_;
  halo.rows.reset();
  HaloSlot& to = slot(halo, clock_.epoch);
  if (delivery.lag > 0 && last && holds_back_) {
    to.hold_sends();
    held_.push_back(&to);
  }
  opened_.push_back(site.id);
  halo.exchange->open(to, codecs_.of(delivery.format), clock_, rows, times_);
}

void StaleHalo::offer(const Site& site, RowRange rows) {
  HaloExchange& exchange = *halo_of(site).exchange;
  exchange.offer(rows, times_);
  if (!bit_chooser_ || !policy_.chooses(clock_) || !policy_.varies(site)) return;
  // Later exchanges overwrite the rows.
  if (rows.end == exchange.plan().inner_rows) {
    ranges_[static_cast<std::size_t>(site.id)] = exchange.ranges();
  }
}

void StaleHalo::end_epoch() {
  if (!bit_chooser_ || !policy_.chooses(clock_)) return;
  const PhaseTimer timer(times_.encode);
  std::vector<std::vector<std::uint8_t>> chosen = bit_chooser_->choose(ranges_);
  for (std::vector<float>& ranges : ranges_) ranges = {};
  for (SiteHalo& h : site_halos_) {
    const Site& site = h.exchange->site();
    if (!policy_.varies(site)) continue;
    h.exchange->tell_bits(std::move(chosen[static_cast<std::size_t>(site.id)]), Channel::moments);
  }
}

std::vector<StaleHalo::SiteBits> StaleHalo::bits() const {
  std::vector<SiteBits> all;
  for (const SiteHalo& h : site_halos_) {
    if (!policy_.varies(h.exchange->site())) continue;
    all.push_back({h.exchange->site(), h.exchange->bits()});
  }
  return all;
}

void StaleHalo::finish(const Site& site, FunctionRef<void(const PackedRows&)> consume) {
  const PackedRows packed = wait_for(halo_of(site));
  if (packed.rows > 0) consume(packed);
}

std::optional<PackedRows> StaleHalo::received(const Site& site) {
  if (turns() == 1) return std::nullopt;
  SiteHalo& halo = halo_of(site);
  if (!halo.rows) halo.rows = wait_for(halo);
  return halo.rows;
}

PackedRows StaleHalo::wait_for(SiteHalo& halo) {
  const Site& site = halo.exchange->site();
  const Buffer& expanded = turns() == 1 ? packed_ : expanded_[shared_place(site, halo.turn)];
  return halo.exchange->finish(slot(halo, source_epoch(site, clock_.epoch)), expanded, times_);
}

std::optional<StaleHalo::NotedRow> StaleHalo::noted_row() const {
  if (failed_.size() == 0) return std::nullopt;
  for (std::size_t i = 0; i < opened_.size(); ++i) {
    const auto site = static_cast<std::size_t>(opened_[i]);
    if (failed_.as<std::int32_t>()[site] == 0) continue;
    return NotedRow{static_cast<std::int64_t>(i), site_halos_[site].exchange->noted_node()};
  }
  return std::nullopt;
}

KeptRows StaleHalo::kept(const Site& site, std::int64_t epoch) {
  SiteHalo& h = halo_of(site);
  if (!h.keeps) return {};
  return {
      {slot(h, epoch).sent(), h.schedule->rows(), site.cols, 0, policy_.of(site, {epoch}).format},
      h.schedule->distinct_rows()};
}

std::vector<StaleHalo::HeldRows<std::byte>> StaleHalo::kept_before(std::int64_t epoch) {
  std::vector<HeldRows<std::byte>> all;
  for (SiteHalo& h : site_halos_) {
    if (!h.keeps) continue;
    const Site& site = h.exchange->site();
    const std::int64_t made = epoch - policy_.lag({epoch}), first = made - policy_.lag({made});
    for (std::int64_t e = first; e < epoch; ++e) {
      const std::size_t bytes = static_cast<std::size_t>(h.schedule->rows()) *
                                policy_.of(site, {e}).format.row_bytes(site.cols);
      all.push_back({site, e, {slot(h, e).sent(), bytes}});
    }
  }
  return all;
}

std::array<double, 2> StaleHalo::bits_sent(const Site& site) const {
  const SiteHalo& h = site_halos_[static_cast<std::size_t>(site.id)];
  const auto rows = static_cast<double>(h.schedule->rows());
  if (!policy_.varies(site)) return {rows * policy_.of(site, {}).format.bits, rows};
  double sum = 0;
  for (const SendSchedule::Message& message : h.schedule->messages()) {
    for (const std::int32_t row : message.send_rows) {
      sum += h.exchange->bits()[static_cast<std::size_t>(row)];
    }
  }
  return {sum, rows};
}

void StaleHalo::release() {
  for (HaloSlot* slot : held_) slot->release_sends();
  held_.clear();
}

void StaleHalo::drain() {
  release();
  const auto wait = [](HaloSlot& slot) {
    slot.wait_for_receives();
    slot.wait_for_sends();
  };
  for (HaloSlot& slot : shared_slots_) wait(slot);
  for (SiteHalo& h : site_halos_) {
    for (HaloSlot& slot : h.ring) wait(slot);
  }
}

template <class Visit>
void StaleHalo::visit_rings(std::int64_t first, std::int64_t last, Visit visit) {
  for (SiteHalo& h : site_halos_) {
    if (!policy_.late(h.exchange->site())) continue;
    for (std::int64_t epoch = first; epoch <= last; ++epoch) {
      visit(epoch, *h.exchange, slot(h, epoch));
    }
  }
}

std::vector<StaleHalo::HeldRows<const std::byte>> StaleHalo::received(std::int64_t first,
                                                                      std::int64_t last) {
  drain();
  std::vector<HeldRows<const std::byte>> all;
  visit_rings(first, last,
              [&](std::int64_t epoch, const HaloExchange& exchange, const HaloSlot& slot) {
                all.push_back({exchange.site(), epoch, exchange.received(slot)});
              });
  return all;
}

std::vector<StaleHalo::HeldRows<std::byte>> StaleHalo::adopt(std::int64_t first,
                                                             std::int64_t last) {
  std::vector<HeldRows<std::byte>> all;
  visit_rings(first, last, [&](std::int64_t epoch, HaloExchange& exchange, HaloSlot& slot) {
    const RowFormat format = policy_.of(exchange.site(), {epoch}).format;
    all.push_back({exchange.site(), epoch, exchange.adopt(slot, format, {epoch})});
  });
  return all;
}

std::vector<std::int64_t> StaleHalo::sent() const {
  std::vector<std::int64_t> all;
  for (const SiteHalo& h : site_halos_) {
    const std::vector<std::int64_t>& sent = h.exchange->sent();
    all.insert(all.end(), sent.begin(), sent.end());
  }
  return all;
}

void StaleHalo::set_sent(std::span<const std::int64_t> sent) {
  for (const SiteHalo& h : site_halos_) {
    const std::size_t counts = h.exchange->sent().size();
    h.exchange->set_sent(sent.first(counts));
    sent = sent.subspan(counts);
  }
}

bool StaleHalo::sent_fits(std::span<const std::int64_t> sent, std::int64_t epochs) const {
  for (const SiteHalo& h : site_halos_) {
    const auto most = static_cast<std::int64_t>(policy_.most_row_bytes_of_run(h.exchange->site()));
    const std::size_t counts = h.exchange->sent().size();
    if (sent[0] != epochs) return false;
    for (const std::int64_t bytes : sent.subspan(1, counts - 1)) {
      if (bytes < 0 || bytes > epochs * h.schedule->rows() * most) return false;
    }
    sent = sent.subspan(counts);
  }
  return true;
}

HaloSlot& StaleHalo::slot(SiteHalo& halo, std::int64_t epoch) {
  if (halo.ring.empty()) return shared_slots_[shared_place(halo.exchange->site(), halo.turn)];
  return halo.ring[static_cast<std::size_t>(epoch) % halo.ring.size()];
}

SendSchedule& StaleHalo::send_schedule(const HaloPlan& plan, bool share_rows) {
  for (const PlanSchedule& made : send_schedules_) {
    if (made.plan == &plan && made.shares_rows == share_rows) return *made.schedule;
  }
  const Shard& shard = shard_.shard();
  auto schedule =
      std::make_unique<SendSchedule>(plan, shard.rank, shard.ranks, share_rows, pieces_);
  schedule->place(shard_.device(), MemoryUse::graph, account_);
  return *send_schedules_.emplace_back(PlanSchedule{&plan, share_rows, std::move(schedule)})
              .schedule;
}

std::int64_t StaleHalo::bytes_sent(Direction direction) const {
  std::int64_t sum = 0;
  for (const SiteHalo& h : site_halos_) {
    if (h.exchange->site().direction == direction) sum += h.exchange->bytes_sent();
  }
  return sum;
}

std::int64_t StaleHalo::fp32_bytes_sent() const {
  std::int64_t sum = 0;
  for (const SiteHalo& h : site_halos_) sum += h.exchange->fp32_bytes_sent();
  return sum;
}

std::vector<LinkTraffic> StaleHalo::traffic() const {
  std::vector<LinkTraffic> all;
  for (const SiteHalo& h : site_halos_) h.exchange->append_traffic(all);
  return all;
}

}  // namespace heliograph
