#include "comm/processes/lanes.hpp"

#include <algorithm>

namespace heliograph {

MessageLanes::MessageLanes(int ranks, std::size_t piece_bytes)
    : piece_bytes_(piece_bytes), lanes_(static_cast<std::size_t>(ranks) * kChannels * 2) {}

std::size_t MessageLanes::index_of(const MessageEnd& end) const {
  const auto peer = static_cast<std::size_t>(end.peer);
  return (peer * kChannels + static_cast<std::size_t>(end.channel)) * 2 + (end.sending ? 1 : 0);
}

MessageEnd MessageLanes::end_of(std::size_t lane) const {
  const std::size_t pair = lane / 2;
  return {static_cast<int>(pair / kChannels), static_cast<Channel>(pair % kChannels),
          lane % 2 == 1};
}

void MessageLanes::push(const MessageEnd& end, std::byte* data, std::size_t bytes,
                        std::uint64_t ticket) {
  lanes_[index_of(end)].messages.push({data, bytes, 0, 0, ticket});
  ++waiting_;
}

bool MessageLanes::may_start(const Lane& lane) const {
  if (lane.next == lane.messages.size()) return false;
  return lane.pieces_under_way < kPiecesUnderWay &&
         lane.bytes_under_way / kLargePiecesUnderWay < piece_bytes_;
}

std::optional<MessageLanes::Piece> MessageLanes::start() {
  if (waiting_ == 0) return std::nullopt;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const std::size_t index = (turn_ + i) % lanes_.size();
    Lane& lane = lanes_[index];
    if (!may_start(lane)) continue;
    turn_ = index + 1;
    Message& message = lane.messages[lane.next];
    const std::size_t bytes = std::min(piece_bytes_, message.bytes - message.started);
    const Piece piece{end_of(index), message.data + message.started, bytes, message.bytes,
                      lane.first + lane.next};
    message.started += bytes;
    if (message.started == message.bytes) {
      ++lane.next;
      --waiting_;
    }
    ++lane.pieces_under_way;
    lane.bytes_under_way += bytes;
    return piece;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> MessageLanes::finish(const Piece& piece) {
  Lane& lane = lanes_[index_of(piece.end)];
  Message& message = lane.messages[piece.message - lane.first];
  message.finished += piece.bytes;
  --lane.pieces_under_way;
  lane.bytes_under_way -= piece.bytes;
  if (message.finished < message.bytes) return std::nullopt;
  const std::uint64_t ticket = message.ticket;
  while (!lane.messages.empty() && lane.messages[0].finished == lane.messages[0].bytes) {
    lane.messages.pop();
    ++lane.first;
    --lane.next;
  }
  return ticket;
}

std::optional<MessageEnd> MessageLanes::unfinished(std::uint64_t ticket) const {
  for (std::size_t index = 0; index < lanes_.size(); ++index) {
    const Lane& lane = lanes_[index];
    for (std::size_t m = 0; m < lane.messages.size(); ++m) {
      const Message& message = lane.messages[m];
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
