#pragma once

#include <functional>

#include "comm/communicator.hpp"
#include "comm/threads/transport.hpp"
#include "comm/watch/frame.hpp"
#include "heliograph/options.hpp"

namespace heliograph {

/// Whether the ranks of a run would be processes: because `transport` says so, or because it leaves
/// the choice and this process has joined others.
bool ranks_are_processes(const TransportOptions& transport);

/// The options of the transport between ranks that are threads.
ThreadTransportOptions thread_options(const TransportOptions& transport);

/// The number of a rank among the ranks of its host, from 0: the CUDA device that it uses, modulo
/// the number of devices.
int device_of_rank(const TransportOptions& transport, const Communicator& comm);

/// The compute threads of each of `ranks` ranks: as many as `transport` says, or a rank's share of
/// the cores, at least 1.
int threads_per_rank(const TransportOptions& transport, int ranks);

/// How ranks exchange messages.
struct LaunchOptions {
  const TransportOptions& transport;
  bool moves_weights = false;           ///< NcclTransportOptions::moves_weights, if they use NCCL.
  RunPhase phase = RunPhase::training;  ///< What they do, for the message of a loss.
};

/// Runs body(comm) for each of `ranks` ranks on threads of this process or, if ranks are processes,
/// for this process's own rank. Returns when these ranks have ended. `log` (may be null) hears of
/// devices between which copies do not arrive. Throws Error: usage (there are not `ranks`
/// processes), and what `body` throws.
void launch_ranks(int ranks, const LaunchOptions& options, const LogCallback& log,
                  const std::function<void(Communicator&)>& body);

}  // namespace heliograph
