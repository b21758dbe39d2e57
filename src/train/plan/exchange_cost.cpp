#include "train/plan/exchange_cost.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "comm/integer_sum.hpp"
#include "core/thread.hpp"
#include "graph/covers.hpp"
#include "graph/edge_weights.hpp"
#include "heliograph/io.hpp"
#include "layers/compose.hpp"
#include "staleness/exchange_policy.hpp"
#include "train/plan/run_plan.hpp"

namespace heliograph {
namespace {

/// The number of rows from each rank to each other rank: [from * ranks + to].
using LinkRows = std::vector<std::int64_t>;

class RowCounter {
 public:
  RowCounter(const Graph& graph, const Partition& partition, const Split* split)
      : graph_(graph), partition_(partition), split_(split) {}

  /// A rank gets the row of every in-neighbour of its nodes that another rank owns.
  LinkRows forward() const {
    const auto nodes = static_cast<std::size_t>(graph_.nodes);
    std::vector<NodeId> by_rank(nodes);
    std::iota(by_rank.begin(), by_rank.end(), NodeId{0});
    std::stable_sort(by_rank.begin(), by_rank.end(),
                     [&](NodeId a, NodeId b) { return owner(a) < owner(b); });
    std::vector<std::int32_t> last_receiver(nodes, -1);
    LinkRows rows = none();
    for (const NodeId v : by_rank) {
      for_each_cut_entry(v, [&](NodeId u) {
        std::int32_t& last = last_receiver[static_cast<std::size_t>(u)];
        if (last != owner(v)) ++rows[link(owner(u), owner(v))];
        last = owner(v);
      });
    }
    return rows;
  }

  /// A rank gets the gradient's row of every out-neighbour of its nodes that another rank owns.
  LinkRows backward() const {
    std::vector<NodeId> last_row(static_cast<std::size_t>(partition_.parts), -1);
    LinkRows rows = none();
    for (NodeId v = 0; v < graph_.nodes; ++v) {
      for_each_cut_entry(v, [&](NodeId u) {
        NodeId& last = last_row[static_cast<std::size_t>(owner(u))];
        if (last != v) ++rows[link(owner(v), owner(u))];
        last = v;
      });
    }
    return rows;
  }

 private:
  std::int32_t owner(NodeId v) const { return partition_.owner[static_cast<std::size_t>(v)]; }
  bool trains(NodeId v) const {
    return split_ == nullptr || split_->role[static_cast<std::size_t>(v)] == Role::train;
  }
  std::size_t link(std::int32_t from, std::int32_t to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(partition_.parts) +
           static_cast<std::size_t>(to);
  }
  LinkRows none() const {
    const auto parts = static_cast<std::size_t>(partition_.parts);
    return LinkRows(parts * parts, 0);
  }

  /// Calls visit(u) for each in-neighbour u of v that another rank owns.
  template <class Visit>
  void for_each_cut_entry(NodeId v, Visit visit) const {
    if (!trains(v)) return;
    const auto row = static_cast<std::size_t>(v);
    for (std::int64_t e = graph_.offsets[row]; e < graph_.offsets[row + 1]; ++e) {
      const NodeId u = graph_.neighbours[static_cast<std::size_t>(e)];
      if (owner(u) != owner(v) && trains(u)) visit(u);
    }
  }

  const Graph& graph_;
  const Partition& partition_;
  const Split* split_;
};

std::int64_t sum_of(const LinkRows& rows) {
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
}

/// The rows that a site of a direction sends on each link: [direction][whether partial sums].
using SiteRows = std::array<std::array<LinkRows, 2>, 2>;

const LinkRows& rows_of(const SiteRows& rows, const Site& site) {
  return rows[site.direction == Direction::forward ? 0 : 1][site.partial_sums ? 1 : 0];
}

SiteRows boundary_rows(const RowCounter& counter, bool directed) {
  const LinkRows forward = counter.forward();
  return {{{forward, {}}, {directed ? counter.backward() : forward, {}}}};
}

/// Backward through a directed graph, a cover's sources receive sums and its targets send rows.
SiteRows covered_rows(const Covers& covers, int ranks, bool directed) {
  const LinkRows none(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks), 0);
  SiteRows rows{{{none, none}, {none, none}}};
  const auto number = [](const std::vector<std::uint8_t>& marks) {
    return std::accumulate(marks.begin(), marks.end(), std::int64_t{0});
  };
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      const Cover& cover = covers.of(from, to);
      const auto link = static_cast<std::size_t>(from * ranks + to);
      const auto back = static_cast<std::size_t>(to * ranks + from);
      rows[0][0][link] = rows[1][1][back] = number(cover.sources);
      rows[0][1][link] = rows[1][0][back] = number(cover.targets);
    }
  }
  if (!directed) rows[1] = rows[0];
  return rows;
}

Covers find_covers(const Graph& graph, const Partition& partition, const Split* split) {
  std::vector<NodeId> members;
  for (NodeId v = 0; split != nullptr && v < graph.nodes; ++v) {
    if (split->role[static_cast<std::size_t>(v)] == Role::train) members.push_back(v);
  }
  const NodeIndex index(graph, partition, split == nullptr ? nullptr : &members);
  std::optional<Graph> transposed;
  if (graph.directed) transposed = transpose(graph);
  return Covers(index, transposed ? &*transposed : nullptr, usable_cores());
}

TrainOptions with_exchange(TrainOptions options, const ExchangeOptions& exchange, int parts) {
  options.partition.parts = parts;
  options.exchange = exchange;
  return options;
}

/// The bytes that all ranks send in an epoch for weight gradients, weights, sums of BatchNorm and
/// the norm of clipping; the last two are doubles.
std::int64_t weight_bytes(const CountedModel& model, const TrainOptions& options, int ranks) {
  const Bits bits = options.exchange.gradient_bits;
  const std::int64_t links = ranks - 1;
  if (bits != Bits::fp32) {
    return IntegerSum::bytes_sent(model.gradients, bit_count(bits), ranks) +
           16 * links * model.rank_sums;
  }
  // Every value crosses K - 1 links as a gradient and K - 1 as a weight.
  const std::int64_t doubles = model.rank_sums + (options.optimizer.clip_norm > 0 ? 1 : 0);
  return links * (model.gradients * ((options.reproducible ? 8 : 4) + 4) + 16 * doubles);
}

}  // namespace

std::vector<ExchangeOptions> at_all_bits(const TrainOptions& options) {
  std::vector<ExchangeOptions> all;
  for (const Bits bits : {Bits::fp32, Bits::bf16, Bits::eight, Bits::four, Bits::two, Bits::one}) {
    if (bits < fewest_bits(options.model)) continue;
    all.push_back(options.exchange);
    all.back().bits_forward = all.back().bits_backward = bits;
  }
  return all;
}

std::vector<ExchangeCost> exchange_costs(const Dataset& dataset, const Partition& partition,
                                         const TrainOptions& options, const Split* split,
                                         std::span<const ExchangeOptions> exchanges,
                                         const Covers* covers) {
  require_trainable(options.model, dataset.name, dataset.features.sparse,
                    weight_range(dataset.graph));
  if (options.normalize == Normalization::standard && dataset.features.sparse) {
    fit_features(dataset.features, {});  // Refuses them, as a run does.
  }
  const int ranks = partition.parts;
  const std::int64_t training_nodes =
      split == nullptr ? 0 : std::count(split->role.begin(), split->role.end(), Role::train);
  std::optional<Covers> found;
  const auto may = [&](const ExchangeOptions& exchange) {
    return may_cover(with_exchange(options, exchange, ranks));
  };
  if (covers == nullptr && std::ranges::any_of(exchanges, may)) {
    covers = &found.emplace(find_covers(dataset.graph, partition, split));
  }
  /// What a run with boundary rows sends, and one with covers.
  struct Sent {
    SiteRows rows;
    CountedModel model;
  };
  std::array<std::optional<Sent>, 2> sent;
  std::vector<ExchangeCost> costs;
  for (const ExchangeOptions& exchange : exchanges) {
    TrainOptions at = with_exchange(options, exchange, ranks);
    const CoverCounts* const counts = may_cover(at) ? &covers->counts() : nullptr;
    ExchangeChoice choice = choose_exchange(at, counts, ranks);
    at.exchange = with_choice(exchange, choice);
    std::optional<Sent>& of = sent[choice.covers ? 1 : 0];
    if (!of) {
      of = {choice.covers
                ? covered_rows(*covers, ranks, dataset.graph.directed)
                : boundary_rows({dataset.graph, partition, split}, dataset.graph.directed),
            count_model(dataset, at, training_nodes)};
    }
    const ExchangePolicy policy(at.exchange, at.epochs, of->model.sites);
    LinkRows bytes(of->rows[0][0].size(), 0);
    for (const Site& site : of->model.sites) {
      const LinkRows& rows = rows_of(of->rows, site);
      const double row_bytes = policy.mean_row_bytes(site);
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] += std::llround(row_bytes * static_cast<double>(rows[i]));
      }
    }
    choice.kept_columns = policy.keeps_columns(of->model.sites);
    ExchangeCost cost;
    cost.row_bytes = sum_of(bytes);
    cost.gradient_bytes = weight_bytes(of->model, at, ranks);
    cost.link_bytes = std::ranges::max(bytes);
    if (ranks > 1) cost.link_bytes += cost.gradient_bytes / (std::int64_t{ranks} * (ranks - 1));
    cost.choice = choice;
    if (counts != nullptr) cost.covers = *counts;
    cost.memory =
        least_memory(dataset, at, training_nodes, sum_of(of->rows[0][0]) + sum_of(of->rows[0][1]));
    costs.push_back(cost);
  }
  return costs;
}

}  // namespace heliograph
