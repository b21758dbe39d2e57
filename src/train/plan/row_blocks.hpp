#pragma once

#include <algorithm>
#include <cstdint>

#include "heliograph/options.hpp"
#include "train/options/given.hpp"

namespace heliograph {

/// In how many blocks of rows each of `ranks` ranks runs a training pass over `rows` rows of all
/// ranks, and so in how many messages the rows for a peer travel. The same on every rank. On
/// CUDA devices, where more were never measured, one unless given.
inline int row_blocks(const TrainOptions& options, std::int64_t rows, int ranks) {
  constexpr std::int64_t kFewestRows = 1024, kMostBlocks = 8;
  if (ranks == 1) return 1;
  if (options.transport.row_blocks > 0) return options.transport.row_blocks;
  if (options.transport.device != DeviceKind::cpu) return 1;
  if (all_late(options.exchange)) return 1;  // Rows need not arrive in their epoch.
  // A second pair of buffers would be large, and wide rows keep a link busy anyway.
  if (std::max(options.exchange.bits_forward, options.exchange.bits_backward) > Bits::eight)
    return 1;
  return static_cast<int>(std::clamp<std::int64_t>(rows / ranks / kFewestRows, 1, kMostBlocks));
}

}  // namespace heliograph
