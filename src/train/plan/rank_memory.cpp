#include "train/plan/rank_memory.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "comm/collectives.hpp"
#include "train/launch.hpp"
#include "train/plan/derived_exchanges.hpp"
#include "train/plan/memory_check.hpp"
#include "train/process_memory.hpp"

namespace heliograph {
namespace {

/// Sums bytes_of(use) over ranks, for each use. Collective.
template <class BytesOf>
MemoryNeeds sum_uses(Communicator& comm, BytesOf bytes_of) {
  MemoryNeeds sum;
  for (std::size_t i = 0; i < sum.bytes.size(); ++i) {
    sum.bytes[i] = bytes_of(static_cast<MemoryUse>(i));
  }
  AllReduce(comm, Channel::evaluation).sum(std::span<std::int64_t>(sum.bytes));
  return sum;
}

/// Throws Error(resource) if what all ranks hold, `held`, and what they allocate later, `to_come`
/// and in the first epochs, are more than the options or the machine allow.
void require_fit(MemoryNeeds held, const Parameters& parameters, MemoryNeeds to_come,
                 const TrainOptions& options) {
  if (options.memory_limit_bytes > 0) {
    for (std::size_t i = 0; i < held.bytes.size(); ++i) held.bytes[i] += to_come.bytes[i];
    add_first_epochs(parameters, options, held);
    require_memory(held, options.memory_limit_bytes, std::nullopt);
    return;
  }
  if (options.transport.device != DeviceKind::cpu) return;  // A device has allocated it all.
  // The host allocates a page when it is first written. So far only training's own pages are not.
  to_come.remedies = held.remedies;
  for (const MemoryUse use : {MemoryUse::activations, MemoryUse::gradients, MemoryUse::halo}) {
    to_come[use] += held[use];
  }
  add_first_epochs(parameters, options, to_come);
  require_memory(to_come, 0, available_memory_bytes());
}

}  // namespace

RankMemory::RankMemory(const RunPlan& plan, Communicator& comm)
    : plan_(plan),
      comm_(comm),
      measures_process_(comm.rank() == 0 || ranks_are_processes(plan.options().transport)) {}

RankData RankMemory::load(MemoryAccount& account) {
  if (measures_process_) setup_peak_ = peak_rss_bytes();
  const std::int64_t stored = plan_.stored_bytes(comm_.rank());
  const bool reads_shard = ranks_are_processes(plan_.options().transport) && stored > 0;
  const bool measures = reads_shard && reset_peak_rss();
  const std::int64_t before = measures ? peak_rss_bytes() : 0;
  RankData data = plan_.load(comm_.rank(), GraphScope::training, MemoryUse::features, &account);
  if (reads_shard) shard_bytes_ = stored;
  if (measures) loading_bytes_ = peak_rss_bytes() - before;
  return data;
}

void RankMemory::end_setup(MemoryAccount& memory, const Parameters& parameters,
                           const MemoryNeeds& to_come, const LogCallback& log) {
  MemoryNeeds held = sum_uses(comm_, [&](MemoryUse use) { return memory.live(use); });
  const MemoryNeeds later = sum_uses(comm_, [&](MemoryUse use) { return to_come[use]; });
  memory.reset_peaks();
  if (measures_process_) setup_peak_ = std::max(setup_peak_, peak_rss_bytes());
  const bool reset = !measures_process_ || reset_peak_rss();
  if (comm_.rank() != 0) return;
  held.remedies = remedies_of(plan_.options(), plan_.stored_bytes(0) > 0, plan_.blocks() > 1,
                              guards(plan_.options(), plan_.facts().task));
  require_fit(held, parameters, later, plan_.options());
  if (!reset && log) {
    log(LogLevel::warning,
        "the system does not let a process reset its peak memory: the peak that is reported for "
        "training includes loading and partitioning");
  }
}

void RankMemory::report(const MemoryAccount& memory, TrainResult& result) {
  const MemoryNeeds peak = sum_uses(comm_, [&](MemoryUse use) { return memory.peak(use); });
  std::array<std::int64_t, 4> process{shard_bytes_, loading_bytes_, setup_peak_,
                                      measures_process_ ? peak_rss_bytes() : 0};
  AllReduce(comm_, Channel::evaluation).sum(std::span<std::int64_t>(process));
  if (comm_.rank() != 0) return;
  result.memory = {peak[MemoryUse::graph],       peak[MemoryUse::features],
                   peak[MemoryUse::activations], peak[MemoryUse::gradients],
                   peak[MemoryUse::halo],        peak[MemoryUse::weights],
                   peak[MemoryUse::workspace],   peak[MemoryUse::evaluation]};
  result.shard_bytes = process[0];
  result.loading_bytes = process[1];
  result.setup_peak_rss_bytes = process[2];
  result.peak_rss_bytes = process[3];
}

}  // namespace heliograph
