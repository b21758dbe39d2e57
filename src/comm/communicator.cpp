#include "comm/communicator.hpp"

#include <fmt/format.h>

namespace heliograph {

std::string_view channel_name(Channel channel) noexcept {
  static constexpr std::string_view kNames[kChannels] = {"halo", "weights", "evaluation",
                                                         "moments"};
  return kNames[static_cast<int>(channel)];
}

std::string describe_rank(int rank, Progress progress) {
  std::string text = fmt::format("rank {}", rank);
  if (progress.epoch >= 0) text += fmt::format(", epoch {}", progress.epoch);
  if (progress.layer >= 0) text += fmt::format(", layer {}", progress.layer);
  return text;
}

void Communicator::flush_after(Device& device) {
  device.finish();
  flush();
}

void Communicator::wait_on(Device& /*device*/, Ticket ticket) { wait(ticket); }

}  // namespace heliograph
