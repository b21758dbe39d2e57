#pragma once

#include "comm/clock.hpp"
#include "comm/communicator.hpp"
#include "comm/sleep_for.hpp"

namespace heliograph::test {

/// Whether all that was posted arrives while the rank only calls `done` now and then, which moves
/// nothing. The deadline is what a busy machine may need, as speed is not tested.
inline bool arrives_unattended(Communicator& comm, Ticket ticket) {
  const double deadline = monotonic_seconds() + 20;
  while (!comm.done(ticket) && monotonic_seconds() < deadline) sleep_for(0.005);
  return comm.done(ticket);
}

}  // namespace heliograph::test
