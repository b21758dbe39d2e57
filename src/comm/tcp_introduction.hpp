#pragma once

#include <functional>

#include "comm/launch_variables.hpp"
#include "comm/tcp_meeting.hpp"

namespace heliograph {

/// Collective over the processes of a run, which introduce themselves. Rank 0 listens where
/// the variables say, the others call it, again and again while it is not there yet.
/// Where a rank reaches rank 0 over a network, others are to call it on that network: the one that
/// the variables name is the run's.
/// `check` is called now and then meanwhile, and may throw.
/// Throws Error: usage (rank 0 refuses this rank), peer_lost (`seconds` have passed), resource;
/// what `check` throws.
TcpMeeting introduce_by_tcp(const LaunchVariables& launch, const TcpIntroduction& mine,
                            double seconds, const std::function<void()>& check);

}  // namespace heliograph
