#pragma once

#include <cstdint>
#include <optional>

#include "comm/clock.hpp"
#include "comm/message_groups.hpp"
#include "comm/nccl/link.hpp"
#include "comm/ring.hpp"

namespace heliograph {

/// The messages of one channel, which have a communicator of NCCL and a stream of their own.
struct ChannelLink {
  explicit ChannelLink(Channel channel) : groups(channel) {}

  bool in_flight() const { return groups.gathers() || groups.under_way() > 0; }

  /// Takes note of what NCCL has done, without waiting. Throws what the link throws.
  void advance() {
    (void)nccl->launched();
    while (nccl->take_done()) {
      groups.pop_oldest();
      posted_at.pop();
      progress_at = monotonic_seconds();
    }
    // While this device's own work holds up the oldest group, no other rank is late.
    if (!nccl->oldest_begins()) progress_at = monotonic_seconds();
  }

  std::optional<NcclLink> nccl;  ///< None for a single rank.
  MessageGroups groups;
  Ring<Progress> posted_at;  ///< Of each group under way.
  double progress_at = 0;
  std::int64_t bytes = 0;
};

}  // namespace heliograph
