#include "comm/threads/link_clock.hpp"

#include <algorithm>

namespace heliograph {

int LinkClock::next_channel() const {
  int best = -1;
  for (int c = 0; c < kChannels; ++c) {
    if (busy(c) && (best < 0 || bytes_left(c) < bytes_left(best))) best = c;
  }
  return best;
}

double LinkClock::next_departure() const {
  const int channel = next_channel();
  return channel < 0 ? kNever : time_ + bytes_left(channel) * sharing_ / rate_;
}

void LinkClock::drain(double bytes_each) {
  for (std::size_t c = 0; c < busy_.size(); ++c) {
    if (busy_[c]) left_[c] = std::max(0.0, left_[c] - bytes_each);
  }
}

std::optional<LinkClock::Departure> LinkClock::advance(double now) {
  const int channel = next_channel();
  const double departs = next_departure();
  if (departs <= now) {
    drain(bytes_left(channel));
    busy_[static_cast<std::size_t>(channel)] = false;
    --sharing_;
    time_ = departs;
    return Departure{channel, departs};
  }
  if (now > time_) {
    if (sharing_ > 0) drain((now - time_) * rate_ / sharing_);
    time_ = now;
  }
  return std::nullopt;
}

void LinkClock::start(int channel, double bytes) {
  busy_[static_cast<std::size_t>(channel)] = true;
  left_[static_cast<std::size_t>(channel)] = bytes;
  ++sharing_;
}

}  // namespace heliograph
