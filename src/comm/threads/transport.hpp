#pragma once

#include <functional>

#include "comm/communicator.hpp"
#include "core/copy_bytes.hpp"

namespace heliograph {

/// A link between ranks that are threads.
struct LinkShape {
  double gbps = 0;        ///< 10^9 bits a second for each directed link; 0: as fast as memory.
  double latency_us = 0;  ///< Added to every message.
};

struct ThreadTransportOptions {
  LinkShape link;
  double timeout_seconds = 120;  ///< Longest wait in which no byte of the waiting rank moves.
  /// Copies messages of which an end lies on a device. If it is the host's, none may.
  CopyBytes copy = copy_on_host;
  /// Called by the communication thread of each rank when it starts; may be null.
  void (*on_thread)(int rank) = nullptr;
};

/// Runs body(comm) on `ranks` threads of this process, one communicator each, and returns when
/// all have ended. A communication thread a rank moves bytes while the rank computes; channels of
/// one link share its rate fairly.
/// If a body throws, the others' waits end with Error(peer_lost) and the first exception is
/// rethrown here, an Error with the rank and its progress put in front.
void run_ranks(int ranks, const ThreadTransportOptions& options,
               const std::function<void(Communicator&)>& body);

}  // namespace heliograph
