#pragma once

#include <string>
#include <vector>

#include "comm/tcp_greeting.hpp"

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

}  // namespace heliograph
