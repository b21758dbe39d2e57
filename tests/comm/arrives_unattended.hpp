#pragma once

#include "comm/communicator.hpp"
#include "comm/sleep_for.hpp"
#include "comm/tickets.hpp"

namespace heliograph::test {

/// Whether all that was posted arrives while the rank asks now and then, which moves nothing. As
/// long as a busy machine may take, since it is not speed that is asked about.
inline bool arrives_unattended(Communicator& comm, Ticket ticket) {
  const double deadline = link_now() + 20;
  while (!comm.done(ticket) && link_now() < deadline) sleep_for(0.005);
  return comm.done(ticket);
}

}  // namespace heliograph::test
