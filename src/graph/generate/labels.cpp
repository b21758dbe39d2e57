#include "graph/generate/labels.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "graph/draws.hpp"

namespace heliograph {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

std::vector<NodeId> shuffled_nodes(std::int64_t nodes, std::uint64_t seed) {
  std::vector<NodeId> order(at(nodes));
  std::iota(order.begin(), order.end(), 0);
  const std::uint64_t stream = generator_stream(seed, Drawn::order);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[Draws(stream, i).below(static_cast<std::uint32_t>(i))]);
  }
  return order;
}

/// Multi-label: how likely a node has each label besides its first. Popularity falls with the
/// square root of the label's rank; a node has `mean` other labels on average.
std::vector<double> other_label_shares(std::int32_t classes, double mean) {
  std::vector<double> share(at(classes));
  for (std::int32_t c = 0; c < classes; ++c) share[at(c)] = 1.0 / std::sqrt(c + 1.0);
  // A label that is also the first one (one time in `classes`) adds nothing.
  const double wanted = mean * classes / (classes - 1.0);
  for (int round = 0; round < 100; ++round) {  // each round cuts the shares that reach 1
    const double total = std::accumulate(share.begin(), share.end(), 0.0);
    for (double& s : share) s = std::min(1.0, s * wanted / total);
  }
  return share;
}

}  // namespace

LabelLists::LabelLists(const GenerateOptions& options)
    : noise_(options.label_noise),
      noise_stream_(generator_stream(options.seed, Drawn::label_noise)),
      offsets_(at(options.nodes) + 1, 0) {
  const std::uint64_t stream = generator_stream(options.seed, Drawn::label);
  std::vector<std::int32_t> first(at(options.nodes));
  if (options.model == GraphModel::rmat) {
    node_at_place_ = shuffled_nodes(options.nodes, options.seed);
    for (std::int64_t place = 0; place < options.nodes; ++place) {
      first[at(node_at_place_[at(place)])] =
          static_cast<std::int32_t>(place * options.classes / options.nodes);
    }
  } else {
    for (std::int64_t v = 0; v < options.nodes; ++v) {
      first[at(v)] =
          static_cast<std::int32_t>(Draws(stream, static_cast<std::uint64_t>(v))
                                        .below(static_cast<std::uint32_t>(options.classes)));
    }
  }
  if (!options.multilabel) {
    std::iota(offsets_.begin(), offsets_.end(), std::int64_t{0});
    labels_ = std::move(first);
    return;
  }

  const std::vector<double> share =
      other_label_shares(options.classes, options.labels_per_node - 1.0);
  for (std::int64_t v = 0; v < options.nodes; ++v) {
    Draws draws(stream, static_cast<std::uint64_t>(v + options.nodes));
    for (std::int32_t c = 0; c < options.classes; ++c) {
      if (draws.unit() < share[at(c)] || c == first[at(v)]) labels_.push_back(c);
    }
    offsets_[at(v) + 1] = static_cast<std::int64_t>(labels_.size());
  }
}

std::span<const std::int32_t> LabelLists::stated(NodeId v) const {
  Draws draws(noise_stream_, static_cast<std::uint64_t>(v));
  if (draws.unit() >= noise_) return of(v);
  return of(static_cast<NodeId>(draws.below(static_cast<std::uint32_t>(nodes()))));
}

}  // namespace heliograph
