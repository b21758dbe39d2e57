#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/rendezvous/launch_variables.hpp"
#include "comm/rendezvous/tcp_greeting.hpp"

namespace heliograph {

/// The processes of a run that have met, and the connections over which they have: these tell of an
/// end until all watch each other.
class TcpMeeting {
 public:
  /// By rank. Rank 0 has a socket to each other rank, the others have one to rank 0.
  TcpMeeting(std::vector<TcpIntroduction> all, std::vector<Socket> sockets);

  const std::vector<TcpIntroduction>& all() const { return all_; }

  /// For as long as this rank watches nobody: who watches all others may have closed its own.
  /// Throws Error(peer_lost): a rank has ended, or rank 0 has said why it ends.
  void check() const;

  /// Rank 0 tells the others why it ends. Of other ranks nothing is told.
  void tell_the_end(const std::string& text) const noexcept;

 private:
  std::vector<TcpIntroduction> all_;
  std::vector<Socket> sockets_;
};

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
