#pragma once

#include <string>
#include <thread>

#include "comm/collectives.hpp"
#include "comm/communicator.hpp"
#include "comm/sleep_for.hpp"
#include "heliograph/error.hpp"

// What goes wrong in ranks that are processes, whatever carries their messages.

namespace heliograph::test {

/// What each rank does, and a part of every rank's Error. The Error of rank `cause` has the code
/// `code`, and those of the other ranks have peer_lost; -1 if no rank causes the failure.
struct ProcessFault {
  void (*body)(Communicator&);
  int cause;
  ErrorCode code;
  const char* text;
};

inline constexpr ProcessFault kException{[](Communicator& comm) {
                                           comm.set_progress({3, 1});
                                           if (comm.rank() == 1)
                                             throw Error(ErrorCode::numeric, "NaN in the gradient");
                                           barrier(comm, Channel::halo);
                                         },
                                         1, ErrorCode::numeric,
                                         "rank 1, epoch 3, layer 1: NaN in the gradient"};

/// What owns messages in flight aborts while the exception passes; its reason is told to nobody.
inline constexpr ProcessFault kUnwinding{[](Communicator& comm) {
                                           struct Owner {
                                             Communicator& comm;
                                             ~Owner() { comm.abort("left with halos in flight"); }
                                           };
                                           comm.set_progress({3, 1});
                                           if (comm.rank() == 1) {
                                             const Owner owner{comm};
                                             throw Error(ErrorCode::numeric, "NaN in the gradient");
                                           }
                                           barrier(comm, Channel::halo);
                                         },
                                         1, ErrorCode::numeric,
                                         "rank 1, epoch 3, layer 1: NaN in the gradient"};

inline constexpr ProcessFault kAbort{[](Communicator& comm) {
                                       if (comm.rank() == 0) {
                                         std::thread([&] {
                                           sleep_for(0.05);
                                           comm.abort("told from outside");
                                         }).join();
                                       }
                                       barrier(comm, Channel::halo);
                                     },
                                     -1, ErrorCode::peer_lost, "rank 0: told from outside"};

inline constexpr ProcessFault kInFlight{[](Communicator& comm) {
                                          static std::byte buffer{};  // Outlives the message.
                                          const RecvMessage receive{1, &buffer, 1};
                                          if (comm.rank() == 0)
                                            comm.post(Channel::halo, {}, {&receive, 1});
                                          if (comm.rank() != 0) barrier(comm, Channel::weights);
                                        },
                                        0, ErrorCode::usage,
                                        "rank 0: the rank has ended with messages in flight"};

/// Rank 1 waits for a message of rank 0, which is busy and waits for nobody until a failure ends
/// it.
inline void wait_in_vain(Communicator& comm) {
  comm.set_progress({4, 2});
  std::byte buffer{};
  const RecvMessage receive{0, &buffer, 1};
  if (comm.rank() == 1) comm.wait(comm.post(Channel::weights, {}, {&receive, 1}));
  while (true) {
    comm.throw_if_failed();
    sleep_for(0.001);
  }
}
/// What every rank is then told, with this deadline.
inline std::string waited_in_vain(const std::string& seconds) {
  return "rank 1, epoch 4, layer 2: waited " + seconds +
         " s without progress for bytes from rank 0 on the weights channel";
}

}  // namespace heliograph::test
