#include "graph/split.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/noise.hpp"
#include "core/throw_error.hpp"
#include "graph/rows.hpp"
#include "graph/task_name.hpp"
#include "graph/validate.hpp"

namespace heliograph {
namespace {

/// Nodes with a random key each.
using KeyedNodes = std::vector<std::pair<std::uint64_t, NodeId>>;

[[noreturn]] void refuse_choice(const SplitChoice& choice, const std::string& why) {
  throw_error(ErrorCode::usage, "--split {}: {}", split_text(choice), why);
}

/// `split` with its shares in per cent.
RandomSplit in_per_cent(RandomSplit split) {
  if (std::abs(split.train + split.validation + split.test - 1.0) > 1e-9) return split;
  // Rounded, so that 0.57 is the same share as 57.
  for (double* share : {&split.train, &split.validation, &split.test}) {
    *share = std::round(*share * 1e12) / 1e10;
  }
  return split;
}

void check(const GivenSplit& split) {
  if (split.index < 0)
    throw_error(ErrorCode::usage, "--split must be at least 0, not {}", split.index);
}

void check(const RandomSplit& given) {
  const RandomSplit split = in_per_cent(given);
  const auto valid = [](double share) { return share >= 0 && std::isfinite(share); };
  if (!valid(split.train) || !valid(split.validation) || !valid(split.test)) {
    refuse_choice(given, "the shares must be at least 0");
  }
  if (split.train == 0) refuse_choice(given, "the share of training nodes must be above 0");
  if (std::max({split.train, split.validation, split.test}) < 1) {
    refuse_choice(given, "shares are per cent, such as 60/20/20, or fractions that sum to 1");
  }
  if (split.train + split.validation + split.test > 100 * (1 + 1e-12)) {
    refuse_choice(given, "the shares, in per cent, must sum to at most 100");
  }
}

void check(const PerClassSplit& split) {
  if (split.train < 1 || split.validation < 0 || split.test < 0) {
    refuse_choice(split, "the first number must be at least 1 and the others at least 0");
  }
}

void require_classes(const Dataset& dataset, const char* split) {
  if (dataset.labels.task == Task::multiclass) return;
  throw_error(ErrorCode::usage, "{} needs one class a node, but '{}' has {}", spell_options(split),
              dataset.name, label_text(dataset.labels.task));
}

void assign(const KeyedNodes& nodes, std::size_t begin, std::size_t end, Role role,
            std::vector<Role>& roles) {
  for (std::size_t i = begin; i < end; ++i) roles[at(nodes[i].second)] = role;
}

/// Sorts nodes by their keys and cuts the list into three sets. The cuts are rounded cumulated
/// shares, so each set differs from its exact share by at most one node.
void deal(KeyedNodes& keyed, const RandomSplit& split, std::vector<Role>& roles) {
  std::sort(keyed.begin(), keyed.end());
  const auto end_of = [&](double share) {
    const double exact = static_cast<double>(keyed.size()) * std::min(share, 100.0) / 100.0;
    return static_cast<std::size_t>(std::llround(exact));
  };
  const std::size_t train = end_of(split.train);
  const std::size_t validation = end_of(split.train + split.validation);
  const std::size_t test = end_of(split.train + split.validation + split.test);
  assign(keyed, 0, train, Role::train, roles);
  assign(keyed, train, validation, Role::validation, roles);
  assign(keyed, validation, test, Role::test, roles);
}

Split make(const Dataset& dataset, const GivenSplit& split) {
  const std::size_t count = dataset.splits.size();
  if (count == 0) {
    throw_error(ErrorCode::usage, "'{}' holds no split: ask for one, e.g. --split random:60/20/20",
                dataset.name);
  }
  if (at(split.index) >= count) {
    throw_error(ErrorCode::usage, "--split {}: '{}' holds splits 0 to {}", split.index,
                dataset.name, count - 1);
  }
  return dataset.splits[at(split.index)];
}

Split make(const Dataset& dataset, const RandomSplit& given) {
  const RandomSplit split = in_per_cent(given);
  if (split.stratified) require_classes(dataset, "--stratified");
  const std::uint64_t stream = stream_key(split.seed, Purpose::split, {}, 0);
  std::vector<KeyedNodes> groups(at(split.stratified ? dataset.labels.classes : 1));
  for (NodeId v = 0; v < dataset.graph.nodes; ++v) {
    if (!dataset.labels.has_label(v)) continue;
    const std::int32_t group = split.stratified ? dataset.labels.class_of[at(v)] : 0;
    groups[at(group)].emplace_back(row_key(stream, static_cast<std::uint64_t>(v)), v);
  }
  std::vector<Role> roles(at(dataset.graph.nodes), Role::none);
  for (KeyedNodes& group : groups) deal(group, split, roles);
  for (const auto& [share, role, set] : {std::tuple{split.train, Role::train, "training"},
                                         {split.validation, Role::validation, "validation"},
                                         {split.test, Role::test, "test"}}) {
    if (share > 0 && std::find(roles.begin(), roles.end(), role) == roles.end()) {
      refuse_choice(given, fmt::format("'{}' has so few labelled nodes that the {} set is empty",
                                       dataset.name, set));
    }
  }
  return {std::move(roles)};
}

Split make(const Dataset& dataset, const PerClassSplit& split) {
  require_classes(dataset, "--split per-class");
  // The rest is drawn by keys of its own: the nodes that are left of a class are those
  // with its largest keys.
  const std::uint64_t first = stream_key(split.seed, Purpose::split, {}, 0);
  const std::uint64_t second = stream_key(split.seed, Purpose::split, {}, 1);
  std::vector<KeyedNodes> classes(at(dataset.labels.classes));
  for (NodeId v = 0; v < dataset.graph.nodes; ++v) {
    if (!dataset.labels.has_label(v)) continue;
    classes[at(dataset.labels.class_of[at(v)])].emplace_back(
        row_key(first, static_cast<std::uint64_t>(v)), v);
  }
  std::vector<Role> roles(at(dataset.graph.nodes), Role::none);
  KeyedNodes rest;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    KeyedNodes& members = classes[c];
    if (members.size() < at(split.train)) {
      const std::string name = dataset.class_names.empty() ? "" : " " + dataset.class_names[c];
      refuse_choice(split, fmt::format("class {}{} of '{}' has only {} labelled nodes", c, name,
                                       dataset.name, members.size()));
    }
    std::sort(members.begin(), members.end());
    assign(members, 0, at(split.train), Role::train, roles);
    for (std::size_t i = at(split.train); i < members.size(); ++i) {
      const NodeId v = members[i].second;
      rest.emplace_back(row_key(second, static_cast<std::uint64_t>(v)), v);
    }
  }
  if (rest.size() < at(split.validation) || rest.size() - at(split.validation) < at(split.test)) {
    refuse_choice(split, fmt::format("the training nodes leave only {} labelled nodes of '{}'",
                                     rest.size(), dataset.name));
  }
  std::sort(rest.begin(), rest.end());
  assign(rest, 0, at(split.validation), Role::validation, roles);
  assign(rest, at(split.validation), at(split.validation + split.test), Role::test, roles);
  return {std::move(roles)};
}

}  // namespace

std::string split_text(const SplitChoice& choice) {
  if (const auto* random = std::get_if<RandomSplit>(&choice)) {
    return fmt::format("random:{}/{}/{}", random->train, random->validation, random->test);
  }
  if (const auto* each = std::get_if<PerClassSplit>(&choice)) {
    return fmt::format("per-class:{}/{}/{}", each->train, each->validation, each->test);
  }
  return std::to_string(std::get<GivenSplit>(choice).index);
}

void check_split_choice(const SplitChoice& choice) {
  std::visit([](const auto& split) { check(split); }, choice);
}

Split make_split(const Dataset& dataset, const SplitChoice& choice) {
  check_split_choice(choice);
  if (!std::holds_alternative<GivenSplit>(choice)) {
    validate_labels(dataset.labels, dataset.graph.nodes, fmt::format("'{}'", dataset.name), true);
  }
  return std::visit([&](const auto& split) { return make(dataset, split); }, choice);
}

}  // namespace heliograph
