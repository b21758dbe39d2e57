#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/matrix.hpp"
#include "core/noise.hpp"

namespace heliograph {

/// One exchange of a model, which sends rows of boundary nodes at one point of a pass. The step
/// that makes the exchange declares it; it is the same on every rank.
struct Site {
  int id = 0;                                ///< Index among the model's sites.
  int layer = 0;                             ///< Layer that errors and progress name.
  Direction direction = Direction::forward;  ///< Selects A (forward) or its transpose for the sums.
  std::string name;                          ///< Unique name, such as "layers.1.forward".
  std::uint64_t key = 0;                     ///< Unique key of the rounding noise.
  std::int64_t cols = 0;                     ///< Number of encoded columns.
  std::int64_t exact_cols = 0;               ///< Number of fp32 columns sent with them.
  bool nonnegative = false;                  ///< Whether no encoded value is negative.
  int groups = 1;                            ///< Groups of encoded columns (RowFormat::groups).
  bool keeps_sent = false;                   ///< Whether backward reads what was sent (Halo::kept).
  bool partial_sums = false;                 ///< Whether rows are sums of neighbours (covers).
  /// The dropout whose dropped columns need not travel: they hold 0 or, if rows are partial sums of
  /// gradients, their receiver multiplies them by 0. None if its threshold is 0.
  DropoutMask dropped = {};
  /// The site that sends the partial sums of this one; null if only rows of nodes are sent.
  std::shared_ptr<const Site> sums = nullptr;
};

}  // namespace heliograph
