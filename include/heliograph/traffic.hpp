#pragma once

#include <cstdint>
#include <string>

namespace heliograph {

/// Bytes handed to the transport by all ranks together, row parameters and padding included.
struct TrafficBytes {
  std::int64_t halo_forward = 0;
  std::int64_t halo_backward = 0;
  std::int64_t allreduce = 0;
  std::int64_t total() const { return halo_forward + halo_backward + allreduce; }
};

/// One exchange of a model's training step.
struct ExchangeSite {
  std::string name;  ///< "layers.1.forward".
  int layer = 0;
  bool backward = false;  ///< Feature gradients travel, not features.
};

/// Halo bytes of a whole run over one directed link, at one site.
struct LinkTraffic {
  std::int32_t from = 0;        ///< Sending rank.
  std::int32_t to = 0;          ///< Receiving rank.
  std::int64_t site = 0;        ///< Index into TrainResult::sites.
  std::int64_t bytes = 0;       ///< As handed to the transport, row parameters included.
  std::int64_t fp32_bytes = 0;  ///< The same values at 4 bytes each.
};

}  // namespace heliograph
