#include "comm/message_groups.hpp"

#include <fmt/format.h>

namespace heliograph {

std::uint64_t MessageGroups::add(std::span<const SendMessage> sends,
                                 std::span<const RecvMessage> receives) {
  if (count_messages(sends, receives) == 0) return 0;
  for (const SendMessage& send : sends) {
    if (send.bytes > 0) sends_.push_back(send);
  }
  for (const RecvMessage& receive : receives) {
    if (receive.bytes > 0) receives_.push_back(receive);
  }
  return gathering_;
}

void MessageGroups::leave() {
  leaving_.clear();
  for (const RecvMessage& receive : receives_) leaving_.push_back({receive.peer, channel_, false});
  for (const SendMessage& send : sends_) leaving_.push_back({send.peer, channel_, true});
  under_way_.push(leaving_);
  sends_.clear();
  receives_.clear();
  ++gathering_;
}

std::string MessageGroups::describe_stall(double seconds) const {
  return heliograph::describe_stall(seconds, under_way_[0][0]) + describe_others();
}

std::string MessageGroups::describe_oldest() const {
  return describe_end(under_way_[0][0]) + describe_others();
}

std::string MessageGroups::describe_others() const {
  const std::size_t others = under_way_[0].size() - 1;
  if (others == 0) return {};
  return fmt::format(", or for {} of its group of {}",
                     others == 1 ? "the other message" : "one of the others", others + 1);
}

}  // namespace heliograph
