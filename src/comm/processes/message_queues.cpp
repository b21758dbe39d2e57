#include "comm/processes/message_queues.hpp"

#include <algorithm>

namespace heliograph {

MessageQueues::MessageQueues(int ranks, std::size_t piece_bytes)
    : piece_bytes_(piece_bytes), queues_(static_cast<std::size_t>(ranks) * kChannels * 2) {}

std::size_t MessageQueues::index_of(const MessageEnd& end) const {
  const auto peer = static_cast<std::size_t>(end.peer);
  return (peer * kChannels + static_cast<std::size_t>(end.channel)) * 2 + (end.sending ? 1 : 0);
}

MessageEnd MessageQueues::end_of(std::size_t queue) const {
  const std::size_t pair = queue / 2;
  return {static_cast<int>(pair / kChannels), static_cast<Channel>(pair % kChannels),
          queue % 2 == 1};
}

void MessageQueues::expect(Channel channel, std::size_t messages) {
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    if (end_of(i).channel == channel) queues_[i].messages.expect(messages);
  }
}

void MessageQueues::push(const MessageEnd& end, std::byte* data, std::size_t bytes,
                         std::uint64_t ticket) {
  queues_[index_of(end)].messages.push({data, bytes, 0, 0, ticket});
  ++waiting_;
}

bool MessageQueues::may_start(const Queue& queue) const {
  if (queue.next == queue.messages.size()) return false;
  return queue.pieces_under_way < kPiecesUnderWay &&
         queue.bytes_under_way / kLargePiecesUnderWay < piece_bytes_;
}

std::optional<MessageQueues::Piece> MessageQueues::start() {
  if (waiting_ == 0) return std::nullopt;
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    const std::size_t index = (turn_ + i) % queues_.size();
    Queue& queue = queues_[index];
    if (!may_start(queue)) continue;
    turn_ = index + 1;
    Message& message = queue.messages[queue.next];
    const std::size_t bytes = std::min(piece_bytes_, message.bytes - message.started);
    const Piece piece{end_of(index), message.data + message.started, bytes, message.bytes,
                      queue.first + queue.next};
    message.started += bytes;
    if (message.started == message.bytes) {
      ++queue.next;
      --waiting_;
    }
    ++queue.pieces_under_way;
    queue.bytes_under_way += bytes;
    return piece;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> MessageQueues::finish(const Piece& piece) {
  Queue& queue = queues_[index_of(piece.end)];
  Message& message = queue.messages[piece.message - queue.first];
  message.finished += piece.bytes;
  --queue.pieces_under_way;
  queue.bytes_under_way -= piece.bytes;
  if (message.finished < message.bytes) return std::nullopt;
  const std::uint64_t ticket = message.ticket;
  while (!queue.messages.empty() && queue.messages[0].finished == queue.messages[0].bytes) {
    queue.messages.pop();
    ++queue.first;
    --queue.next;
  }
  return ticket;
}

std::optional<MessageEnd> MessageQueues::unfinished(std::uint64_t ticket) const {
  for (std::size_t index = 0; index < queues_.size(); ++index) {
    const Queue& queue = queues_[index];
    for (std::size_t m = 0; m < queue.messages.size(); ++m) {
      const Message& message = queue.messages[m];
      if (message.ticket == ticket && message.finished < message.bytes) return end_of(index);
    }
  }
  return std::nullopt;
}

int tag_of_size(std::size_t bytes, int largest) {
  const auto half = static_cast<std::size_t>(largest) / 2;
  if (bytes <= half) return static_cast<int>(bytes);
  return static_cast<int>(half + 1 + (bytes / 64) % half);
}

std::size_t size_of_tag(int tag, int largest) {
  const auto half = static_cast<std::size_t>(largest) / 2;
  const auto value = static_cast<std::size_t>(tag);
  return value <= half ? value : (value - half - 1) * 64;
}

}  // namespace heliograph
