#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "comm/batch.hpp"
#include "comm/ring.hpp"

namespace heliograph {

/// The messages of one rank, cut into pieces that a transport can take (MPI counts in 31 bits).
/// Each peer, channel and direction has a queue of messages in posting order. Only a few pieces of
/// a queue are under way at a time, so a channel with large messages does not hold up the others.
/// Allocates nothing once its queues have grown. Not thread-safe.
class MessageQueues {
 public:
  struct Piece {
    MessageEnd end{};
    std::byte* data = nullptr;  ///< The piece's place in the message; only read when sending.
    std::size_t bytes = 0;
    std::size_t message_bytes = 0;
    std::uint64_t message = 0;  ///< The number of the message in its queue.
  };

  MessageQueues(int ranks, std::size_t piece_bytes);

  /// Prepares for this many messages at a time to and from each rank.
  void expect(Channel channel, std::size_t messages);

  void push(const MessageEnd& end, std::byte* data, std::size_t bytes, std::uint64_t ticket);

  /// The next piece that may start, which then counts as started; nothing if none may.
  std::optional<Piece> start();

  /// Counts a started piece as moved. Returns the ticket of its message if that is complete.
  std::optional<std::uint64_t> finish(const Piece& piece);

  /// An incomplete message of the batch `ticket`; nothing if all are complete.
  std::optional<MessageEnd> unfinished(std::uint64_t ticket) const;

  static constexpr int kPiecesUnderWay = 16;      ///< The most pieces of one queue.
  static constexpr int kLargePiecesUnderWay = 4;  ///< The most full-sized pieces of one queue.

 private:
  struct Message {
    std::byte* data;
    std::size_t bytes;
    std::size_t started;   ///< Bytes of the pieces that have started.
    std::size_t finished;  ///< Bytes of the pieces that have finished.
    std::uint64_t ticket;
  };
  struct Queue {
    Ring<Message> messages;
    std::uint64_t first = 0;  ///< The number of messages[0].
    std::size_t next = 0;     ///< Index of the first message with pieces to start.
    int pieces_under_way = 0;
    std::size_t bytes_under_way = 0;
  };

  std::size_t index_of(const MessageEnd& end) const;
  MessageEnd end_of(std::size_t queue) const;
  bool may_start(const Queue& queue) const;

  const std::size_t piece_bytes_;
  std::vector<Queue> queues_;
  std::size_t turn_ = 0;     ///< The queue at which the round robin continues.
  std::size_t waiting_ = 0;  ///< The number of messages with pieces to start.
};

/// The size of a message as an MPI tag of at most `largest`: in bytes if it fits into half of the
/// range, else in units of 64 bytes. So a receiver sees the size that was sent even if its own
/// buffer is shorter.
int tag_of_size(std::size_t bytes, int largest);
/// The size that a tag stands for: exact, or rounded down to 64 bytes, modulo the range.
std::size_t size_of_tag(int tag, int largest);

}  // namespace heliograph
