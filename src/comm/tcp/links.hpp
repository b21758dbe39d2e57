#pragma once

#include <poll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "comm/processes/communicator.hpp"
#include "comm/rendezvous/socket.hpp"
#include "comm/ring.hpp"

namespace heliograph {

/// One rank's connections to all others, one for each channel, and the pieces under way on them.
/// Messages that a peer does not receive yet hold up their own channel only.
/// On a connection, a message is its size (8 bytes) and its bytes, in posting order.
/// Used by the communication thread. Allocates nothing once its queues have grown.
class TcpLinks {
 public:
  /// `sockets` is by channel and rank. They do not block; those of this rank itself are closed.
  /// Throws Error(resource).
  TcpLinks(int ranks, std::vector<std::vector<Socket>> sockets);
  TcpLinks(const TcpLinks&) = delete;
  TcpLinks& operator=(const TcpLinks&) = delete;

  /// Moves messages in turns until `comm` begins no more. Throws TransportFailure: a connection has
  /// ended.
  void move(ProcessCommunicator& comm);

 private:
  using Piece = MessageQueues::Piece;
  using SizeBytes = std::array<std::byte, sizeof(std::uint64_t)>;

  /// One direction of one connection.
  struct Flow {
    Ring<Piece> pieces;
    std::size_t done = 0;   ///< Bytes of pieces[0].
    std::size_t left = 0;   ///< Bytes of the message that have not moved; 0: a message begins.
    SizeBytes size{};       ///< Of the message.
    std::size_t sized = 0;  ///< Bytes of `size` that have moved.
    bool may_move = true;   ///< False after a call that moved nothing, until poll() says otherwise.
  };
  struct Link {
    Socket socket;
    int peer = 0;
    Channel channel = Channel::halo;
    Flow in, out;
  };

  void take(const Piece& piece);
  bool advance(ProcessCommunicator& comm);
  bool move_some(Link& link, bool sending, ProcessCommunicator& comm);
  /// Returns the bytes that one call has moved; 0: none can be moved now.
  std::size_t move_bytes(const Link& link, bool sending, Flow& flow, std::size_t bytes);
  void list_waiting();
  void note_ready();
  void look();
  void sleep(ProcessCommunicator& comm);

  std::vector<Link> links_;  ///< By peer and channel; the own rank's are closed.
  std::vector<pollfd> entries_;
  std::vector<std::size_t> polled_;  ///< The link of each entry but the first.
  Descriptor alarm_;                 ///< Wakes a sleeping communication thread.
  std::function<void()> ring_;
};

}  // namespace heliograph
