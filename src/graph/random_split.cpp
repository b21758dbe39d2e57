#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/noise.hpp"
#include "core/throw_error.hpp"
#include "heliograph/io.hpp"

namespace heliograph {
namespace {

struct Shares {
  double train, validation, test;
};

void check_shares(const Shares& shares) {
  const double sum = shares.train + shares.validation + shares.test;
  const bool valid =
      shares.train > 0 && shares.validation >= 0 && shares.test >= 0 && sum <= 100.0 * (1 + 1e-12);
  if (!valid) {
    throw_error(ErrorCode::usage,
                "the shares {}/{}/{} per cent of a random split are invalid: the first must be "
                "above 0, none "
                "may be negative, and they may sum to at most 100",
                shares.train, shares.validation, shares.test);
  }
}

/// Sorts nodes by a random key and cuts the list into three sets. The cuts are rounded cumulated
/// shares, so each set differs from its exact share by at most one node.
void deal(std::vector<std::pair<std::uint64_t, NodeId>>& keyed, const Shares& shares,
          std::vector<Role>& roles) {
  std::sort(keyed.begin(), keyed.end());
  const auto end_of = [&](double share) {
    const double exact = static_cast<double>(keyed.size()) * std::min(share, 100.0) / 100.0;
    return static_cast<std::size_t>(std::llround(exact));
  };
  const std::size_t train = end_of(shares.train);
  const std::size_t validation = end_of(shares.train + shares.validation);
  const std::size_t test = end_of(shares.train + shares.validation + shares.test);
  for (std::size_t i = 0; i < test; ++i) {
    roles[static_cast<std::size_t>(keyed[i].second)] = i < train        ? Role::train
                                                       : i < validation ? Role::validation
                                                                        : Role::test;
  }
}

void check_filled(const std::vector<Role>& roles, const Shares& shares) {
  const auto demand = [&](double share, Role role, const char* set) {
    if (share > 0 && std::find(roles.begin(), roles.end(), role) == roles.end()) {
      throw_error(ErrorCode::usage, "a random split with {} per cent leaves the {} set empty",
                  share, set);
    }
  };
  demand(shares.train, Role::train, "training");
  demand(shares.validation, Role::validation, "validation");
  demand(shares.test, Role::test, "test");
}

}  // namespace

Split random_split(const Dataset& dataset, double train_share, double validation_share,
                   double test_share, std::uint64_t seed, bool stratified) {
  const Shares shares{train_share, validation_share, test_share};
  check_shares(shares);
  if (stratified && dataset.labels.task == Task::multilabel) {
    throw Error(ErrorCode::usage,
                "a stratified split needs one class a node, but this data set is multi-label");
  }
  const std::uint64_t stream = stream_key(seed, Purpose::split, {}, 0);
  const auto groups = static_cast<std::size_t>(stratified ? dataset.labels.classes : 1);
  std::vector<std::vector<std::pair<std::uint64_t, NodeId>>> keyed(groups);
  for (NodeId v = 0; v < dataset.graph.nodes; ++v) {
    if (!dataset.labels.has_label(v)) continue;
    const std::int32_t group =
        stratified ? dataset.labels.class_of[static_cast<std::size_t>(v)] : 0;
    keyed[static_cast<std::size_t>(group)].emplace_back(
        row_key(stream, static_cast<std::uint64_t>(v)), v);
  }
  std::vector<Role> roles(static_cast<std::size_t>(dataset.graph.nodes), Role::none);
  for (auto& group : keyed) deal(group, shares, roles);
  check_filled(roles, shares);
  return {std::move(roles)};
}

}  // namespace heliograph
