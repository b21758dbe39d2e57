#pragma once

#include <functional>

#include "comm/communicator.hpp"
#include "comm/threads/transport.hpp"
#include "heliograph/options.hpp"

namespace heliograph {

/// Whether the ranks of a run that is started now would be processes: asked for, or left open by a
/// process that is in a group of several.
bool ranks_are_processes(const TransportOptions& transport);

/// The options of ranks that are threads.
ThreadTransportOptions thread_options(const TransportOptions& transport);

/// The CUDA device of a rank, counted from 0 over the ranks of its host; devices are fewer or more.
int device_of_rank(const TransportOptions& transport, const Communicator& comm);

/// Compute threads of each rank that `transport` asks for, its share of the cores where it does
/// not. 0: the trainer divides the cores of this process among its ranks.
int threads_per_rank(const TransportOptions& transport);

/// Runs body(comm) on each of `ranks` ranks, as threads or, on this process's one rank, as a
/// process among others.
/// Throws Error: usage (`ranks` are not as many as there are processes), and what bodies throw.
void launch_ranks(int ranks, const TransportOptions& transport,
                  const std::function<void(Communicator&)>& body);

}  // namespace heliograph
