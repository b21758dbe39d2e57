#pragma once

#include <span>
#include <string>

#include "comm/communicator.hpp"

namespace heliograph {

// The checks of a batch and the texts of failures that all transports share.

/// Throws Error(usage) for a batch that breaks the rules of Communicator::post.
void check_batch(const Communicator& comm, std::span<const SendMessage> sends,
                 std::span<const RecvMessage> receives);

/// The number of messages of a batch that are not empty.
int count_messages(std::span<const SendMessage> sends, std::span<const RecvMessage> receives);

/// The end of a message at which a rank waits.
struct MessageEnd {
  int peer;
  Channel channel;
  bool sending;
};

/// "bytes from rank 1 on the halo channel", "rank 1 to receive on the halo channel".
std::string describe_end(const MessageEnd& end);
/// "3 s", "0.25 s".
std::string describe_seconds(double seconds);
/// "waited 3 s without progress for bytes from ...".
std::string describe_stall(double seconds, const MessageEnd& end);
/// "rank 0 sends 12 bytes on the halo channel, rank 1 expects 8".
std::string describe_mismatch(int from, int to, Channel channel, std::size_t sent,
                              std::size_t expected);
/// Throws Error(usage): a ticket that post never gave.
[[noreturn]] void refuse_ticket(const Communicator& comm, Ticket ticket);

inline constexpr const char* kEndedInFlight = "the rank has ended with messages in flight";

/// What a rank reports of an exception.
struct RankFailure {
  ErrorCode code;
  std::string text;
};

/// The exception that is being handled; call inside a catch block.
RankFailure current_failure();

}  // namespace heliograph
