#pragma once

#include "comm/clock.hpp"
#include "comm/communicator.hpp"
#include "comm/sleep_for.hpp"

namespace heliograph::test {

/// Whether all that was posted arrives while the rank asks now and then, which moves nothing. As
/// long as a busy machine may take, since it is not speed that is asked about.
inline bool arrives_unattended(Communicator& comm, Ticket ticket) {
  const double deadline = monotonic_seconds() + 20;
  while (!comm.done(ticket) && monotonic_seconds() < deadline) sleep_for(0.005);
  return comm.done(ticket);
}

}  // namespace heliograph::test
