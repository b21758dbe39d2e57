#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "comm/communicator.hpp"
#include "comm/ring.hpp"

namespace heliograph {

/// The batches that one rank has posted and how many of their messages are still under way.
/// The rank opens and waits; any communication thread completes; any thread interrupts.
class Tickets {
 public:
  enum class Woken : std::uint8_t { done, interrupted, timeout };

  /// A batch of `messages` > 0.
  Ticket open(int messages);

  /// One message of the batch is done.
  void complete(std::uint64_t ticket);

  /// A part of a message has come or gone: no deadline passes while parts do.
  void moved();

  bool done(Ticket ticket) const;
  bool all_done() const;
  bool issued(Ticket ticket) const;

  /// How often interrupt was called.
  std::uint64_t interruptions() const;

  /// Blocks until the batch is done, until interruptions() is no longer `seen`, or until no
  /// message of this rank has been completed or moved on for `timeout` seconds of waiting.
  Woken wait(Ticket ticket, std::uint64_t seen, double timeout);

  /// Ends a wait without its batch being done.
  void interrupt();

 private:
  bool is_done(std::uint64_t ticket) const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Ring<int> remaining_{1024};  // Of the batches from oldest_ on, several epochs' when stale.
  std::uint64_t oldest_ = 1;   // Every batch before it is done.
  std::uint64_t awaited_ = 0;
  std::uint64_t interruptions_ = 0;
  double last_completion_ = 0;
};

}  // namespace heliograph
