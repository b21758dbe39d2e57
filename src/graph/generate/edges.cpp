#include "graph/generate/edges.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "graph/draws.hpp"

namespace heliograph {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Expected degrees up to a factor: a Pareto tail, cut where a hub would expect edges to more
/// than an eighth of all nodes.
std::vector<float> degree_weights(const GenerateOptions& options) {
  const double exponent = options.degree_exponent;
  const double mean = (exponent - 1) / (exponent - 2);
  const double mean_degree =
      std::max(1.0, 2.0 * static_cast<double>(options.edges) / static_cast<double>(options.nodes));
  const double largest =
      mean * std::max(2.0, static_cast<double>(options.nodes) / (8 * mean_degree));
  const std::uint64_t stream = generator_stream(options.seed, Drawn::weight);
  std::vector<float> weight(at(options.nodes));
  for (std::int64_t v = 0; v < options.nodes; ++v) {
    Draws draws(stream, static_cast<std::uint64_t>(v));
    const double drawn = std::pow(1.0 - draws.unit(), -1.0 / (exponent - 1));
    weight[at(v)] = static_cast<float>(std::min(largest, drawn));
  }
  return weight;
}

/// Of two ascending lists.
std::size_t common_labels(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  std::size_t common = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    common += a[i] == b[j] ? 1 : 0;
    const bool advance_a = a[i] <= b[j], advance_b = b[j] <= a[i];
    i += advance_a ? 1 : 0;
    j += advance_b ? 1 : 0;
  }
  return common;
}

constexpr int patience = 64;  ///< Draws of an end before an edge is given up.

/// Draws edges [first, first + count) twice, block by block: in parallel into a buffer, then into
/// the builder in order.
template <class Model>
Graph build(const Model& model, std::int64_t nodes, std::int64_t first, std::int64_t count,
            ThreadPool& pool) {
  constexpr std::int64_t block = 1 << 20;
  constexpr std::int64_t grain = 1 << 14;
  std::vector<Edge> edges(at(std::min(block, count)));
  const auto replay = [&](auto&& take) {
    for (std::int64_t begin = 0; begin < count; begin += block) {
      const std::int64_t size = std::min(block, count - begin);
      const auto draw_some = [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t i = from; i < to; ++i) {
          edges[at(i)] = model.draw(static_cast<std::uint64_t>(first + begin + i));
        }
      };
      pool.for_ranges(size, grain, draw_some);
      for (std::int64_t i = 0; i < size; ++i) take(edges[at(i)].first, edges[at(i)].second);
    }
  };
  ImportCounts counts;
  return build_graph(nodes, false, counts, replay);
}

template <class Model>
Graph draw_until_enough(const Model& model, const GenerateOptions& options, ThreadPool& pool) {
  constexpr int most_rounds = 10;
  Graph graph = build(model, options.nodes, 0, options.edges, pool);
  std::int64_t drawn = options.edges;
  std::int64_t held = graph.entries() / 2;
  double yield = drawn == 0 ? 1.0 : static_cast<double>(held) / static_cast<double>(drawn);
  for (int round = 1; round < most_rounds; ++round) {
    const std::int64_t missing = options.edges - held;
    if (missing * 1000 <= options.edges) break;
    // The next draws meet more duplicates than the ones before; a low yield means saturation.
    const auto count =
        static_cast<std::int64_t>(static_cast<double>(missing) / std::clamp(yield, 0.25, 1.0));
    graph = unite(graph, build(model, options.nodes, drawn, count, pool));
    drawn += count;
    yield = static_cast<double>(graph.entries() / 2 - held) / static_cast<double>(count);
    held = graph.entries() / 2;
    if (yield < 0.02) break;
  }
  return graph;
}

}  // namespace

WeightedNodes::WeightedNodes(std::vector<NodeId> nodes, const std::vector<float>& weight)
    : slots_(nodes.size()) {
  double total = 0;
  for (const NodeId v : nodes) total += weight[at(v)];
  std::vector<double> scaled(nodes.size());
  std::vector<std::size_t> small, large;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    scaled[i] = weight[at(nodes[i])] * static_cast<double>(nodes.size()) / total;
    (scaled[i] < 1 ? small : large).push_back(i);
  }
  constexpr float full = 0x1p24F;
  while (!small.empty() && !large.empty()) {
    const std::size_t few = small.back(), many = large.back();
    small.pop_back();
    slots_[few] = {static_cast<float>(scaled[few]) * full, nodes[few], nodes[many]};
    scaled[many] -= 1 - scaled[few];
    if (scaled[many] < 1) {
      large.pop_back();
      small.push_back(many);
    }
  }
  for (const std::size_t i : small) slots_[i] = {full, nodes[i], nodes[i]};
  for (const std::size_t i : large) slots_[i] = {full, nodes[i], nodes[i]};
}

BlockEdges::BlockEdges(const GenerateOptions& options, const LabelLists& labels)
    : labels_(labels),
      homophily_(options.homophily),
      other_class_(!options.multilabel),
      candidates_(options.multilabel ? 4 : 1),
      stream_(generator_stream(options.seed, Drawn::edge)) {
  const std::vector<float> weight = degree_weights(options);
  std::vector<std::vector<NodeId>> members(at(options.classes));
  std::vector<NodeId> all(at(options.nodes));
  std::iota(all.begin(), all.end(), 0);
  for (const NodeId v : all) {
    for (const std::int32_t c : labels.of(v)) members[at(c)].push_back(v);
  }
  members_.reserve(members.size());
  for (auto& nodes : members) members_.emplace_back(std::move(nodes), weight);
  all_.emplace_back(std::move(all), weight);
}

Edge BlockEdges::draw(std::uint64_t index) const {
  Draws draws(stream_, index);
  const NodeId u = all_[0].pick(draws.bits());
  const auto own = labels_.of(u);
  if (draws.unit() < homophily_) {
    const auto c = own[draws.below(static_cast<std::uint32_t>(own.size()))];
    const WeightedNodes& alike = members_[at(c)];
    NodeId best = u;
    std::size_t most_common = 0;
    int found = 0;
    for (int attempt = 0; alike.size() > 1 && attempt < patience; ++attempt) {
      const NodeId v = alike.pick(draws.bits());
      if (v == u) continue;
      const std::size_t common = candidates_ == 1 ? 1 : common_labels(own, labels_.of(v));
      if (common > most_common) {
        best = v;
        most_common = common;
      }
      if (++found == candidates_) break;
    }
    return {u, best};
  }
  for (int attempt = 0; attempt < patience; ++attempt) {
    const NodeId v = all_[0].pick(draws.bits());
    if (v != u && !(other_class_ && labels_.of(v)[0] == own[0])) return {u, v};
  }
  return {u, u};
}

RmatEdges::RmatEdges(const GenerateOptions& options, const LabelLists& labels)
    : labels_(labels), levels_(0), stream_(generator_stream(options.seed, Drawn::edge)) {
  while ((std::int64_t{1} << levels_) < options.nodes) ++levels_;
  const auto share = [](double part) {
    return static_cast<std::uint32_t>(std::min(4294967295.0, part * 4294967296.0));
  };
  a_ = share(options.rmat_a);
  ab_ = share(options.rmat_a + options.rmat_b);
  abc_ = share(options.rmat_a + options.rmat_b + options.rmat_c);
}

Edge RmatEdges::draw(std::uint64_t index) const {
  Draws draws(stream_, index);
  const auto places = labels_.node_at_place();
  for (int attempt = 0; attempt < patience; ++attempt) {
    std::size_t row = 0, column = 0;
    std::uint64_t bits = 0;
    for (int level = 0; level < levels_; ++level) {
      bits = level % 2 == 0 ? draws.bits() : bits >> 32;
      const auto part = static_cast<std::uint32_t>(bits);
      row = 2 * row + (part >= ab_ ? 1 : 0);
      column = 2 * column + ((part >= a_ && part < ab_) || part >= abc_ ? 1 : 0);
    }
    if (row < places.size() && column < places.size() && row != column) {
      return {places[row], places[column]};
    }
  }
  return {places[0], places[0]};
}

Graph draw_graph(const GenerateOptions& options, const LabelLists& labels, ThreadPool& pool) {
  return options.model == GraphModel::rmat
             ? draw_until_enough(RmatEdges(options, labels), options, pool)
             : draw_until_enough(BlockEdges(options, labels), options, pool);
}

}  // namespace heliograph
