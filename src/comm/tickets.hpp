#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "comm/communicator.hpp"
#include "comm/ring.hpp"

namespace heliograph {

/// The batches that one rank has posted, each with the number of its messages still under way.
/// The rank's thread calls open and wait; communication threads call complete and moved; any thread
/// may call interrupt.
class Tickets {
 public:
  enum class WaitResult : std::uint8_t { done, interrupted, timeout };

  /// Opens a batch of `messages` messages, at least one.
  Ticket open(int messages);

  /// Counts one message of the batch as done.
  void complete(std::uint64_t ticket);

  /// Notes that a part of a message has moved, which puts off the deadline of `wait`.
  void moved();

  bool done(Ticket ticket) const;
  bool all_done() const;
  bool issued(Ticket ticket) const;

  /// How often interrupt was called.
  std::uint64_t interruptions() const;

  /// Blocks until the batch is done, until interruptions() is no longer `seen`, or until no
  /// message of this rank has been completed or moved on for `timeout` seconds of waiting, in which
  /// the process was not stopped.
  WaitResult wait(Ticket ticket, std::uint64_t seen, double timeout);

  /// Ends a wait without its batch being done.
  void interrupt();

 private:
  bool is_done(std::uint64_t ticket) const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Ring<int> remaining_{1024};  // Messages left in each batch from oldest_ on.
  std::uint64_t oldest_ = 1;   // Every batch before it is done.
  std::uint64_t awaited_ = 0;
  std::uint64_t interruptions_ = 0;
  double last_completion_ = 0;
};

}  // namespace heliograph
