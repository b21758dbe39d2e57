#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/generate_labels.hpp"
#include "heliograph/generate.hpp"

namespace heliograph {

/// Features of a node: the sum of its labels' means plus independent normal noise. Class means are
/// independent normal vectors of expected length 1, so how hard the classes are to tell apart
/// hardly depends on the number of columns.
class FeatureRows {
 public:
  FeatureRows(const GenerateOptions& options, const LabelLists& labels);

  /// Fills row `v`: `cols` values.
  void fill(NodeId v, std::span<float> row) const;

 private:
  const LabelLists& labels_;
  std::size_t cols_;
  double noise_;
  std::uint64_t stream_;
  std::vector<double> means_;  ///< classes x cols.
};

}  // namespace heliograph
