#pragma once

#include <array>
#include <limits>
#include <optional>

#include "comm/communicator.hpp"

namespace heliograph {

/// Computes when messages leave one directed link. The link has a fixed rate, which its busy
/// channels share equally; each channel sends one message at a time. The object reads no clock but
/// computes from the times that it is given. So a late caller loses no rate: it is told the exact
/// time at which each overdue message left. Times are seconds on one monotonic clock, sizes bytes.
class LinkClock {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  struct Departure {
    int channel;
    double time;
  };

  explicit LinkClock(double bytes_per_second) : rate_(bytes_per_second) {}

  /// Moves on to the first departure that is not after `now` and returns it, or to `now` when
  /// there is none left. A channel that has departed is idle until started again.
  std::optional<Departure> advance(double now);

  /// Starts a message on an idle channel, at the time to which the clock has moved.
  void start(int channel, double bytes);

  bool busy(int channel) const { return busy_[static_cast<std::size_t>(channel)]; }

  /// When the next message departs if nothing else is started; kNever when all are idle.
  double next_departure() const;

 private:
  int next_channel() const;  // The busy channel with the fewest bytes left; -1 when all are idle.
  double bytes_left(int channel) const { return left_[static_cast<std::size_t>(channel)]; }
  void drain(double bytes_each);

  double rate_;
  double time_ = 0;
  int sharing_ = 0;
  std::array<bool, kChannels> busy_{};
  std::array<double, kChannels> left_{};
};

}  // namespace heliograph
