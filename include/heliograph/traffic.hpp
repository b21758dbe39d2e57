#pragma once

#include <cstdint>
#include <string>

namespace heliograph {

/// The bytes that all ranks together hand to the transport, row parameters and padding included.
struct TrafficBytes {
  std::int64_t halo_forward = 0;
  std::int64_t halo_backward = 0;
  std::int64_t allreduce = 0;
  std::int64_t total() const { return halo_forward + halo_backward + allreduce; }
};

/// One exchange of a model's training step.
struct ExchangeSite {
  std::string name;  ///< The name of the site, such as "layers.1.forward".
  int layer = 0;
  bool backward = false;  ///< The exchange sends feature gradients instead of features.
  bool late = false;      ///< Its rows may be late (ExchangeOptions::stale_sites).
  double bits = 0;        ///< Mean bits a value of the rows sent at the end of the run; 0 for none.
};

/// The halo bytes that one rank sends to another at one site in a whole run.
struct LinkTraffic {
  std::int32_t from = 0;        ///< The sending rank.
  std::int32_t to = 0;          ///< The receiving rank.
  std::int64_t site = 0;        ///< The index of the site in TrainResult::sites.
  std::int64_t bytes = 0;       ///< Bytes handed to the transport, row parameters included.
  std::int64_t fp32_bytes = 0;  ///< Its boundary rows at 4 bytes a value; 0 for partial sums.
};

}  // namespace heliograph
