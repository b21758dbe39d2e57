#include "graph/io/edge_arrays.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/throw_error.hpp"
#include "graph/canonical.hpp"
#include "graph/io/from_one.hpp"
#include "graph/refuse.hpp"

namespace heliograph {

EdgeArrays::EdgeArrays(const NpyArray& array, bool pairs)
    : name_(array.name), sources_(array), targets_(array) {
  const bool by_edge = array.shape.size() == 2 && array.shape[1] == 2;
  const bool lists = array.shape.size() == 2 && array.shape[0] == 2;
  if (!by_edge && !lists) {
    refuse(array.name, "has shape {}; edges are (edges, 2) or (2, edges)", array.shape_text());
  }
  count_ = array.elements() / 2;
  step_ = by_edge && (pairs || !lists) ? 2 : 1;
  shift_ = step_ == 2 ? 1 : count_;
}

EdgeArrays::EdgeArrays(std::string name, NpyArray sources, NpyArray targets)
    : name_(std::move(name)), sources_(std::move(sources)), targets_(std::move(targets)) {
  count_ = sources_.size();
  if (targets_.size() == count_) return;
  refuse(name_, "hold {} sources and {} targets: an edge needs one of each", count_,
         targets_.size());
}

std::int64_t EdgeArrays::largest() const {
  std::int64_t most = -1;
  for (std::int64_t i = 0; i < count_; ++i) most = std::max({most, source(i), target(i)});
  return most;
}

Graph EdgeArrays::graph(std::int64_t nodes, std::optional<int> base_option,
                        std::span<const float> weights, const ImportOptions& options,
                        ImportCounts& counts, const std::string& where) const {
  const std::int64_t base = base_option.value_or(0);
  const auto fits = [&](std::int64_t node, std::int64_t first) {
    return node >= first && node - first < nodes;
  };
  for (std::int64_t i = 0; i < count_; ++i) {
    const bool good = fits(source(i), base);
    if (good && fits(target(i), base)) continue;
    const std::int64_t end = good ? 1 : 0;
    bool from_one = base == 0;
    for (std::int64_t e = 0; e < count_ && from_one; ++e) {
      from_one = fits(source(e), 1) && fits(target(e), 1);
    }
    refuse(name_, "entry [{}, {}] is node {}, which is not in [{}, {}]{}", step_ == 2 ? i : end,
           step_ == 2 ? end : i, good ? target(i) : source(i), base, nodes - 1 + base,
           from_one && base_option ? spell_options("; all would fit if nodes were numbered from 1: "
                                                   "use --index-base 1")
                                   : from_one_hint(from_one));
  }
  const auto replay = [&](auto&& use) {
    for (std::int64_t i = 0; i < count_; ++i) {
      use(static_cast<NodeId>(source(i) - base), static_cast<NodeId>(target(i) - base),
          weights.empty() ? 1.0F : weights[static_cast<std::size_t>(i)]);
    }
  };
  return build_graph(nodes, options.keep_direction, counts, replay, where);
}

}  // namespace heliograph
