#pragma once

#include <cstdint>

namespace heliograph {

/// Bytes handed to the transport by all ranks together, row parameters and padding included.
struct TrafficBytes {
  std::int64_t halo_forward = 0;
  std::int64_t halo_backward = 0;
  std::int64_t allreduce = 0;
  std::int64_t total() const { return halo_forward + halo_backward + allreduce; }
};

/// Halo bytes of a whole run over one directed link, for one layer and direction.
struct LinkTraffic {
  std::int32_t from = 0;  ///< Sending rank.
  std::int32_t to = 0;    ///< Receiving rank.
  std::int32_t layer = 0;
  std::int32_t backward = 0;    ///< 0: features; 1: feature gradients.
  std::int64_t bytes = 0;       ///< As handed to the transport, row parameters included.
  std::int64_t fp32_bytes = 0;  ///< The same values at 4 bytes each.
};

}  // namespace heliograph
