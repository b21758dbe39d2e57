#pragma once

#include <cstdint>
#include <variant>

#include "heliograph/dataset.hpp"

namespace heliograph {

/// A split that the data set holds.
struct GivenSplit {
  int index = 0;  ///< Into Dataset::splits.
};

/// The labelled nodes, drawn at random by shares. Shares that sum to 1 are fractions; others are
/// per cent, and then one of them must be at least 1 and their sum at most 100.
struct RandomSplit {
  double train = 60, validation = 20, test = 20;
  std::uint64_t seed = 0;
  bool stratified = false;  ///< Keep the shares within each class; multi-class only.
};

/// Numbers of labelled nodes, drawn at random as for the Planetoid data sets: `train` of each
/// class, then `validation` and `test` of all others. Multi-class only.
struct PerClassSplit {
  std::int64_t train = 20, validation = 500, test = 1000;
  std::uint64_t seed = 0;
};

using SplitChoice = std::variant<GivenSplit, RandomSplit, PerClassSplit>;

/// The split of `dataset` that `choice` names. The same seed gives the same split on every machine.
/// Throws Error(usage): shares or numbers that are not valid, a set that would be empty, or a split
/// that this data set does not have or cannot fill; and Error(bad_input) if one is drawn and the
/// labels do not fit the graph's nodes.
Split make_split(const Dataset& dataset, const SplitChoice& choice);

}  // namespace heliograph
