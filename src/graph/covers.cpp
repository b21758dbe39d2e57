#include "graph/covers.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/thread_pool.hpp"
#include "graph/rows.hpp"

namespace heliograph {
namespace {

constexpr std::int32_t kNone = -1;

/// A largest matching, found in phases of disjoint alternating paths after a greedy start.
class Matching {
 public:
  Matching(const Csr& edges, std::int64_t targets)
      : edges_(edges),
        target_of_(edges.offsets.size() - 1, kNone),
        source_of_(at(targets), kNone),
        level_(target_of_.size()),
        next_(target_of_.size()) {
    for (std::int32_t s = 0; s < sources(); ++s) {
      for (const std::int32_t t : row(s)) {
        if (source_of_[at(t)] != kNone) continue;
        match(s, t);
        break;
      }
    }
    while (find_levels()) {
      std::copy(edges_.offsets.begin(), edges_.offsets.end() - 1, next_.begin());
      for (std::int32_t s = 0; s < sources(); ++s) {
        if (target_of_[at(s)] == kNone) augment(s);
      }
    }
  }

  /// Koenig: sources that no alternating path from an unmatched source reaches, and targets that
  /// one reaches. Every smallest cover holds these targets.
  Cover cover() const {
    Cover cover{std::vector<std::uint8_t>(target_of_.size(), 0),
                std::vector<std::uint8_t>(source_of_.size(), 0)};
    for (std::int32_t s = 0; s < sources(); ++s) {
      if (level_[at(s)] == kNone) {
        cover.sources[at(s)] = row(s).empty() ? 0 : 1;
      } else {
        for (const std::int32_t t : row(s)) cover.targets[at(t)] = 1;
      }
    }
    return cover;
  }

 private:
  std::int32_t sources() const { return static_cast<std::int32_t>(target_of_.size()); }
  std::span<const std::int32_t> row(std::int32_t s) const {
    return std::span(edges_.columns)
        .subspan(at(edges_.offsets[at(s)]), at(edges_.offsets[at(s) + 1] - edges_.offsets[at(s)]));
  }
  void match(std::int32_t s, std::int32_t t) {
    target_of_[at(s)] = t;
    source_of_[at(t)] = s;
  }

  /// Sets the distance of each source from the unmatched ones in alternating paths, or kNone.
  /// Returns whether a path ends at an unmatched target.
  bool find_levels() {
    queue_.clear();
    for (std::int32_t s = 0; s < sources(); ++s) {
      level_[at(s)] = target_of_[at(s)] == kNone ? 0 : kNone;
      if (level_[at(s)] == 0) queue_.push_back(s);
    }
    bool found = false;
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      const std::int32_t s = queue_[i];
      for (const std::int32_t t : row(s)) {
        const std::int32_t other = source_of_[at(t)];
        if (other == kNone) {
          found = true;
        } else if (level_[at(other)] == kNone) {
          level_[at(other)] = level_[at(s)] + 1;
          queue_.push_back(other);
        }
      }
    }
    return found;
  }

  /// Matches `first` along an alternating path of ascending levels, if there is one left.
  void augment(std::int32_t first) {
    path_.assign(1, first);
    while (!path_.empty()) {
      const std::int32_t s = path_.back();
      std::int64_t& e = next_[at(s)];
      if (e == edges_.offsets[at(s) + 1]) {
        path_.pop_back();
        continue;
      }
      const std::int32_t t = edges_.columns[at(e++)];
      const std::int32_t other = source_of_[at(t)];
      if (other == kNone) {
        // Each source on the path takes the target by which the path left it.
        for (const std::int32_t on_path : path_) {
          match(on_path, edges_.columns[at(next_[at(on_path)] - 1)]);
        }
        return;
      }
      if (level_[at(other)] == level_[at(s)] + 1) path_.push_back(other);
    }
  }

  const Csr& edges_;
  std::vector<std::int32_t> target_of_, source_of_;  ///< The matching, or kNone.
  std::vector<std::int32_t> level_;
  std::vector<std::int64_t> next_;  ///< The next entry of each source that `augment` follows.
  std::vector<std::int32_t> queue_, path_;
};

/// The edges from a rank's nodes to those of each other rank: rows are the nodes with such edges,
/// columns the nodes that they reach, both numbered in local order.
struct CutEdges {
  Csr edges{{0}, {}};
  std::int64_t targets = 0;
};

std::vector<CutEdges> cut_edges(const NodeIndex& index, const Graph& readers, int from) {
  std::vector<CutEdges> cuts(at(index.ranks()));
  for (const NodeId v : index.nodes(from)) {
    for (const NodeId reader : neighbours_of(readers, v)) {
      if (!index.contains(reader)) continue;
      const int to = index.owner(reader);
      if (to != from) cuts[at(to)].edges.columns.push_back(index.local(reader));
    }
    for (CutEdges& cut : cuts) {
      const auto end = static_cast<std::int64_t>(cut.edges.columns.size());
      if (end > cut.edges.offsets.back()) cut.edges.offsets.push_back(end);
    }
  }
  for (int to = 0; to < index.ranks(); ++to) {
    CutEdges& cut = cuts[at(to)];
    std::vector<std::int32_t> number(cut.edges.columns.empty() ? 0 : index.nodes(to).size(), kNone);
    for (const std::int32_t t : cut.edges.columns) number[at(t)] = 0;
    for (std::int32_t& n : number) {
      if (n == 0) n = static_cast<std::int32_t>(cut.targets++);
    }
    for (std::int32_t& t : cut.edges.columns) t = number[at(t)];
  }
  return cuts;
}

}  // namespace

Cover smallest_cover(const Csr& edges, std::int64_t targets) {
  return Matching(edges, targets).cover();
}

Covers::Covers(const NodeIndex& index, const Graph* transposed, int threads)
    : ranks_(index.ranks()), covers_(at(std::int64_t{ranks_} * ranks_)) {
  const Graph& readers = transposed != nullptr ? *transposed : index.graph();
  std::vector<CoverCounts> counts(at(ranks_));
  ThreadPool(threads).run(ranks_, [&](std::int64_t task) {
    const auto from = static_cast<int>(task);
    const std::vector<CutEdges> cuts = cut_edges(index, readers, from);
    for (int to = 0; to < ranks_; ++to) {
      const CutEdges& cut = cuts[at(to)];
      Cover cover = smallest_cover(cut.edges, cut.targets);
      CoverCounts& c = counts[at(from)];
      c.boundary_rows += static_cast<std::int64_t>(cover.sources.size());
      c.rows += std::accumulate(cover.sources.begin(), cover.sources.end(), std::int64_t{0});
      c.sums += std::accumulate(cover.targets.begin(), cover.targets.end(), std::int64_t{0});
      for (std::size_t s = 0; s < cover.sources.size(); ++s) {
        const std::int64_t degree = cut.edges.offsets[s + 1] - cut.edges.offsets[s];
        if (cover.sources[s] == 0) c.summed += degree;
      }
      covers_[at(std::int64_t{from} * ranks_ + to)] = std::move(cover);
    }
  });
  for (const CoverCounts& c : counts) {
    counts_.boundary_rows += c.boundary_rows;
    counts_.rows += c.rows;
    counts_.sums += c.sums;
    counts_.summed += c.summed;
  }
}

void Covers::mark(Shard& shard) const {
  const auto append = [](std::vector<std::uint8_t>& to, const std::vector<std::uint8_t>& marks) {
    to.insert(to.end(), marks.begin(), marks.end());
  };
  for (const HaloPlan::Peer& peer : shard.in.plan.peers) {
    append(shard.in.cover.sent, of(shard.rank, peer.rank).sources);
    append(shard.in.cover.halo, of(peer.rank, shard.rank).sources);
  }
  if (!shard.out) return;
  for (const HaloPlan::Peer& peer : shard.out->plan.peers) {
    append(shard.out->cover.sent, of(peer.rank, shard.rank).targets);
    append(shard.out->cover.halo, of(shard.rank, peer.rank).targets);
  }
}

}  // namespace heliograph
