#pragma once

#include <cstdint>

#include "core/function_ref.hpp"
#include "core/matrix.hpp"
#include "core/noise.hpp"
#include "core/packed_rows.hpp"

namespace heliograph {

/// The rows that a pass exchanges in one (layer, direction).
struct HaloRows {
  int layer = 0;
  Direction direction = Direction::forward;
  std::int64_t cols = 0;
  bool nonnegative = false;  ///< As `begin` will promise.
};

/// All that a layer knows of other ranks: rows of boundary nodes leave, rows of halo nodes come.
/// Used by one thread, the rank's own. For each (layer, direction): begin, then finish, in the
/// same order on every rank.
class Halo {
 public:
  virtual ~Halo() = default;

  /// Starts sending the boundary rows of `rows` (inner nodes x cols), each times
  /// row_scale[inner node] if that is not null. `nonnegative` promises that no value is below 0.
  /// `rows` may be changed after finish, not before.
  /// Throws Error: numeric (NaN or Inf, with layer, node and epoch), peer_lost.
  virtual void begin(int layer, Direction direction, ConstMatrixView rows, const float* row_scale,
                     bool nonnegative) = 0;

  /// Waits for the halo rows that this epoch uses and hands them to `consume`, one block of
  /// columns after the other; the blocks cover every column once. The packed rows are valid
  /// during the call only. With no halo on this rank, `consume` may not be called at all.
  virtual void finish(int layer, Direction direction,
                      FunctionRef<void(const PackedRows&)> consume) = 0;
};

}  // namespace heliograph
