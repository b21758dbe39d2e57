#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/threads/outbox.hpp"
#include "comm/threads/transport.hpp"
#include "comm/tickets.hpp"

namespace heliograph {

/// What the ranks of one run_ranks share: tickets and outgoing links of every rank, their
/// communication threads, and the one failure that ends them all.
class ThreadWorld {
 public:
  ThreadWorld(int ranks, const ThreadTransportOptions& options);
  /// Stops the communication threads; messages in flight are dropped.
  ~ThreadWorld();
  ThreadWorld(const ThreadWorld&) = delete;
  ThreadWorld& operator=(const ThreadWorld&) = delete;

  int ranks() const { return ranks_; }
  double timeout_seconds() const { return timeout_seconds_; }
  bool moves_device_memory() const { return moves_device_memory_; }
  Tickets& tickets(int rank) { return tickets_[static_cast<std::size_t>(rank)]; }
  Outbox& outbox(int rank) { return outboxes_[static_cast<std::size_t>(rank)]; }

  /// Starts the communication threads. Throws Error(resource) when the system has none left.
  void start();

  /// Records why `rank` failed and ends every wait; the first failure wins. Returns once no copy
  /// runs.
  void fail(int rank, Progress progress, ErrorCode code, const std::string& reason) noexcept;
  /// The same for an exception that left the body of `rank`. It also replaces a failure that this
  /// rank recorded because of the exception (an abort by a destructor).
  void fail_by_exception(int rank, Progress progress, ErrorCode code,
                         const std::string& what) noexcept;
  bool failed() const noexcept { return failed_; }

  /// The failure as every rank but the caller of run_ranks sees it: Error(peer_lost).
  /// Returns if there is none; throws only once no copy runs.
  void throw_if_failed();

  /// The failure with its own code. Call after all ranks have ended.
  void rethrow_cause() const;

  /// Notes that the body of `rank` has returned, so that waiting for its messages is an error.
  void set_ended(int rank);
  bool any_ended() const noexcept { return any_ended_; }
  bool ended(int rank) const noexcept { return ended_[static_cast<std::size_t>(rank)]; }

 private:
  void record(int rank, Progress progress, ErrorCode code, const std::string& reason) noexcept;
  void end_all_waits() noexcept;
  void quiesce();
  std::string message() const;

  const int ranks_;
  const double timeout_seconds_;
  const bool moves_device_memory_;
  void (*const on_thread_)(int rank);
  std::deque<Tickets> tickets_;
  std::deque<Outbox> outboxes_;
  std::deque<std::atomic<bool>> ended_;
  std::atomic<bool> any_ended_{false};
  std::vector<std::thread> communication_threads_;

  std::atomic<bool> failed_{false};
  mutable std::mutex failure_mutex_;
  int failed_rank_ = -1;
  ErrorCode code_ = ErrorCode::peer_lost;
  std::string message_;
};

}  // namespace heliograph
