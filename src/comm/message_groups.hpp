#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/batch.hpp"
#include "comm/communicator.hpp"
#include "comm/ring.hpp"

namespace heliograph {

/// The messages of one rank on one channel, in groups that are sent one after the other. Messages
/// are added to the youngest group; the older ones are under way. Groups are numbered from 1.
/// Allocates nothing once it has held its most. Not thread-safe.
class MessageGroups {
 public:
  explicit MessageGroups(Channel channel) : channel_(channel) {}

  /// Adds a batch, without its empty messages, to the youngest group and returns that group's
  /// number; 0 if nothing is left of the batch.
  std::uint64_t add(std::span<const SendMessage> sends, std::span<const RecvMessage> receives);

  std::span<const SendMessage> sends() const { return sends_; }
  std::span<const RecvMessage> receives() const { return receives_; }
  bool gathers() const { return !sends_.empty() || !receives_.empty(); }

  /// Counts the youngest group as under way and begins the next one.
  void leave();
  /// Removes the oldest group under way, which is done.
  void pop_oldest() { under_way_.pop(); }

  std::size_t under_way() const { return under_way_.size(); }
  /// Whether the group of this number, which `add` has returned, is done.
  bool done(std::uint64_t group) const { return group < gathering_ - under_way_.size(); }
  /// Whether `add` has returned this number.
  bool known(std::uint64_t group) const { return group < gathering_ + (gathers() ? 1 : 0); }

  /// "waited 3 s without progress for ...": the same as describe_oldest after that.
  std::string describe_stall(double seconds) const;
  /// "bytes from rank 1 on the halo channel, or for ...": one message of the oldest group under
  /// way, and how many others are in that group.
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
