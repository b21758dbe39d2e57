#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/batch.hpp"
#include "comm/communicator.hpp"
#include "comm/ring.hpp"

namespace heliograph {

/// One rank's messages of one channel in groups that leave, and are done, one after the other: one
/// gathers, those before it are under way. Groups are numbered from 1.
/// Allocates nothing once it has held its most. Not thread-safe.
class MessageGroups {
 public:
  explicit MessageGroups(Channel channel) : channel_(channel) {}

  /// Adds a batch, without its empty messages, to the group that gathers, and returns that group's
  /// number; 0 if nothing is left of the batch.
  std::uint64_t add(std::span<const SendMessage> sends, std::span<const RecvMessage> receives);

  std::span<const SendMessage> sends() const { return sends_; }
  std::span<const RecvMessage> receives() const { return receives_; }
  bool gathers() const { return !sends_.empty() || !receives_.empty(); }

  /// The group that gathers goes off, and the next one begins to gather.
  void leave();
  /// The oldest group under way is done.
  void pop_oldest() { under_way_.pop(); }

  std::size_t under_way() const { return under_way_.size(); }
  /// Whether a group that add has named is done.
  bool done(std::uint64_t group) const { return group < gathering_ - under_way_.size(); }
  /// Whether add has given this number.
  bool known(std::uint64_t group) const { return group < gathering_ + (gathers() ? 1 : 0); }

  /// That the oldest group under way has been waited for in vain, and whom it waits for.
  std::string describe_stall(double seconds) const;
  /// "bytes from rank 1 on the halo channel": whom the oldest group under way waits for, by one of
  /// its messages, and how many others left with it.
  std::string describe_oldest() const;

 private:
  using Group = std::vector<MessageEnd>;  // What is received comes first.

  std::string describe_others() const;

  Channel channel_;
  std::vector<SendMessage> sends_;
  std::vector<RecvMessage> receives_;
  std::uint64_t gathering_ = 1;
  Group leaving_;
  Ring<Group> under_way_;
};

}  // namespace heliograph
