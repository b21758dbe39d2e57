#pragma once

#include <cstdint>
#include <string>

#include "core/noise.hpp"

namespace heliograph {

/// Rows [begin, end) of a matrix.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t rows() const { return end - begin; }
};

/// One exchange of a model: rows of boundary nodes that travel at one point of a pass. Declared
/// once, by the step that exchanges them; the same on every rank.
struct Site {
  int id = 0;                                ///< Its place among the model's sites.
  int layer = 0;                             ///< For messages that say where a run stands.
  Direction direction = Direction::forward;  ///< Of the adjacency that sums the rows.
  std::string name;                          ///< "layers.1.forward"; unlike any other site's.
  std::uint64_t key = 0;                     ///< Of its noise, and unlike any other site's.
  std::int64_t cols = 0;                     ///< Columns that are encoded.
  std::int64_t exact_cols = 0;               ///< fp32 columns that travel beside them.
  bool nonnegative = false;                  ///< No encoded value is below 0.
};

}  // namespace heliograph
