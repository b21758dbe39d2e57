#include "train/epoch_statistics.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>

namespace heliograph {
namespace {

static_assert(sizeof(RankEpoch) == 15 * sizeof(double) && std::is_trivially_copyable_v<RankEpoch>);
constexpr std::size_t kFigures = sizeof(RankEpoch) / sizeof(double);
using Figures = std::array<double, kFigures>;

}  // namespace

EpochStatistics::EpochStatistics(Communicator& comm, MemoryAccount* account)
    : comm_(comm),
      ranks_(static_cast<std::size_t>(comm.size())),
      sum_(comm, Channel::evaluation, account) {}

EpochEnd EpochStatistics::combine(const RankEpoch& mine) {
  // Each rank fills its own element and adds zeros to those of the others.
  std::fill(ranks_.begin(), ranks_.end(), RankEpoch());
  ranks_[static_cast<std::size_t>(comm_.rank())] = mine;
  sum_.sum(std::span(reinterpret_cast<double*>(ranks_.data()), ranks_.size() * kFigures));

  EpochEnd end;
  EpochReport& report = end.report;
  Figures sums{};
  for (const RankEpoch& rank : ranks_) {
    report.seconds = std::max(report.seconds, rank.seconds);
    const auto figures = std::bit_cast<Figures>(rank);
    for (std::size_t i = 0; i < kFigures; ++i) sums[i] += figures[i];
  }
  const auto sum = std::bit_cast<RankEpoch>(sums);
  report.loss = sum.loss;
  end.gradient_squares = sum.gradient_squares;
  const PhaseClock& p = sum.phases;
  const double ranks = comm_.size();
  const double parts = p.aggregate + p.gemm + p.encode + p.exposed_comm + p.allreduce;
  report.parts = {p.aggregate / ranks,    p.gemm / ranks,      p.encode / ranks,
                  p.exposed_comm / ranks, p.allreduce / ranks, report.seconds - parts / ranks};
  report.bytes = {static_cast<std::int64_t>(sum.halo_forward),
                  static_cast<std::int64_t>(sum.halo_backward),
                  static_cast<std::int64_t>(sum.allreduce_bytes)};
  report.fp32_bytes = static_cast<std::int64_t>(sum.fp32_bytes);
  end.asked = {sum.stops != 0, sum.saves != 0};
  end.records = sum.records != 0;
  return end;
}

}  // namespace heliograph
