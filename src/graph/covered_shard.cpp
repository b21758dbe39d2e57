#include <algorithm>
#include <utility>

#include "graph/covers.hpp"
#include "graph/rows.hpp"

namespace heliograph {
namespace {

/// Appends to `plan` the peer's rows that are in covers, and to `halo_row` their new numbers.
void keep_covered_rows(const HaloPlan::Peer& peer, std::span<const std::uint8_t> sent,
                       std::span<const std::uint8_t> halo, HaloPlan& plan,
                       std::vector<std::int32_t>& halo_row) {
  HaloPlan::Peer kept{peer.rank, {}, plan.halo_rows, 0};
  for (std::size_t i = 0; i < sent.size(); ++i) {
    if (sent[i] != 0) kept.sent.push_back(peer.sent[i]);
  }
  kept.replaced = static_cast<std::int32_t>(peer.sent.size() - kept.sent.size());
  for (const std::uint8_t mark : halo) halo_row.push_back(mark != 0 ? plan.halo_rows++ : -1);
  kept.halo_end = plan.halo_rows;
  plan.peers.push_back(std::move(kept));
}

/// Appends the sums that this rank makes for one peer: for each of the peer's rows, in their order,
/// its sources that are not in the cover, if there are any. `sources` are the rows that the peer
/// needs, `target_ids` the node numbers of the peer's rows.
void make_sums(std::span<const std::int32_t> sources, std::span<const std::uint8_t> in_cover,
               const Csr& readers, std::int32_t first_target,
               std::span<const std::int64_t> target_ids, int rank, PartialSums& sums) {
  std::vector<std::int64_t> next(target_ids.size() + 1, 0);
  const auto visit = [&](auto&& entry) {
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (in_cover[i] != 0) continue;
      const std::int32_t s = sources[i];
      const auto begin = readers.columns.begin() + readers.offsets[at(s)];
      const auto end = readers.columns.begin() + readers.offsets[at(s) + 1];
      for (auto t = std::lower_bound(begin, end, first_target); t != end; ++t) {
        const auto target = at(*t - first_target);
        if (target >= target_ids.size()) break;
        entry(s, target, at(t - readers.columns.begin()));
      }
    }
  };
  visit([&](std::int32_t, std::size_t target, std::size_t) { ++next[target + 1]; });
  const std::int64_t base = sums.made.entries();
  for (std::size_t t = 0; t < target_ids.size(); ++t) {
    const bool summed = next[t + 1] > 0;
    next[t + 1] += next[t];
    if (!summed) continue;
    sums.made.offsets.push_back(base + next[t + 1]);
    sums.ids.push_back(PartialSums::id(rank, target_ids[t]));
  }
  sums.made.columns.resize(at(base + next.back()));
  if (!readers.values.empty()) sums.made.values.resize(sums.made.columns.size());
  visit([&](std::int32_t s, std::size_t target, std::size_t entry) {
    const std::size_t to = at(base + next[target]++);
    sums.made.columns[to] = s;
    if (!readers.values.empty()) sums.made.values[to] = readers.values[entry];
  });
}

/// Whether a row has a source among the halo rows [begin, end) that is not in the cover.
bool receives_sum(const Csr& halo, std::int32_t row, std::int32_t begin, std::int32_t end,
                  std::span<const std::uint8_t> in_cover) {
  const auto first = halo.columns.begin() + halo.offsets[at(row)];
  const auto last = halo.columns.begin() + halo.offsets[at(row) + 1];
  for (auto c = std::lower_bound(first, last, begin); c != last && *c < end; ++c) {
    if (in_cover[at(*c)] == 0) return true;
  }
  return false;
}

/// The entries of `halo` whose columns keep a number.
Csr keep_columns(const Csr& halo, const std::vector<std::int32_t>& halo_row) {
  Csr kept;
  kept.offsets.assign(1, 0);
  kept.offsets.reserve(halo.offsets.size());
  for (std::size_t r = 0; r + 1 < halo.offsets.size(); ++r) {
    for (std::int64_t e = halo.offsets[r]; e < halo.offsets[r + 1]; ++e) {
      const std::int32_t column = halo_row[at(halo.columns[at(e)])];
      if (column < 0) continue;
      kept.columns.push_back(column);
      if (!halo.values.empty()) kept.values.push_back(halo.values[at(e)]);
    }
    kept.offsets.push_back(static_cast<std::int64_t>(kept.columns.size()));
  }
  kept.columns.shrink_to_fit();
  kept.values.shrink_to_fit();
  return kept;
}

/// The halo block and plan of `a` with partial sums. `readers`: the transpose of the same operator;
/// `reader_ids`: the node numbers of its halo rows.
Adjacency cover_halo(const Adjacency& a, const Adjacency& readers, int rank,
                     std::span<const std::int64_t> reader_ids) {
  Adjacency covered;
  HaloPlan& plan = covered.plan;
  plan.inner_rows = a.plan.inner_rows;
  PartialSums& sums = covered.sums.emplace();
  sums.made.offsets.assign(1, 0);
  std::vector<std::int32_t> halo_row;
  std::vector<std::pair<std::int32_t, std::int32_t>> received;  // Inner row, sum.
  std::size_t sent_begin = 0;
  for (std::size_t i = 0; i < a.plan.peers.size(); ++i) {
    const HaloPlan::Peer& peer = a.plan.peers[i];
    const HaloPlan::Peer& back = readers.plan.peers[i];
    const auto sent = std::span(a.cover.sent).subspan(sent_begin, peer.sent.size());
    sent_begin += peer.sent.size();
    keep_covered_rows(
        peer, sent,
        std::span(a.cover.halo).subspan(at(peer.halo_begin), at(peer.halo_end - peer.halo_begin)),
        plan, halo_row);

    const auto first_made = static_cast<std::int32_t>(sums.ids.size());
    make_sums(peer.sent, sent, readers.halo, back.halo_begin,
              reader_ids.subspan(at(back.halo_begin), at(back.halo_end - back.halo_begin)), rank,
              sums);
    HaloPlan::Peer of_sums{peer.rank, {}, sums.plan.halo_rows, 0};
    for (auto sum = first_made; sum < static_cast<std::int32_t>(sums.ids.size()); ++sum) {
      of_sums.sent.push_back(sum);
    }
    for (const std::int32_t row : back.sent) {
      if (receives_sum(a.halo, row, peer.halo_begin, peer.halo_end, a.cover.halo)) {
        received.emplace_back(row, sums.plan.halo_rows++);
      }
    }
    of_sums.halo_end = sums.plan.halo_rows;
    if (!of_sums.sent.empty() || of_sums.halo_begin < of_sums.halo_end) {
      sums.plan.peers.push_back(std::move(of_sums));
    }
  }
  covered.halo = keep_columns(a.halo, halo_row);
  sums.plan.inner_rows = static_cast<std::int32_t>(sums.ids.size());
  std::ranges::sort(received);
  sums.received.offsets.assign(at(a.plan.inner_rows) + 1, 0);
  for (const auto& [row, sum] : received) {
    ++sums.received.offsets[at(row) + 1];
    sums.received.columns.push_back(sum);
  }
  for (std::size_t r = 0; r < at(a.plan.inner_rows); ++r) {
    sums.received.offsets[r + 1] += sums.received.offsets[r];
  }
  return covered;
}

}  // namespace

Shard cover_halos(Shard shard, std::span<const std::int64_t> halo_ids,
                  std::span<const std::int64_t> halo_ids_out) {
  const Adjacency& readers = shard.out ? *shard.out : shard.in;
  Adjacency in = cover_halo(shard.in, readers, shard.rank, shard.out ? halo_ids_out : halo_ids);
  in.inner = std::move(shard.in.inner);
  if (shard.out) {
    Adjacency out = cover_halo(*shard.out, shard.in, shard.rank, halo_ids);
    out.inner = std::move(shard.out->inner);
    *shard.out = std::move(out);
  }
  shard.in = std::move(in);
  return shard;
}

}  // namespace heliograph
