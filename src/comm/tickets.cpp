#include "comm/tickets.hpp"

#include <algorithm>
#include <chrono>

#include "comm/clock.hpp"

namespace heliograph {
namespace {

/// The longest sleep of a wait. One that takes this much longer was a stop of the whole process.
constexpr double kTurnSeconds = 0.5;

}  // namespace

Ticket Tickets::open(int messages) {
  const std::lock_guard lock(mutex_);
  remaining_.push(messages);
  return {oldest_ + remaining_.size() - 1};
}

void Tickets::complete(std::uint64_t ticket) {
  bool notify = false;
  {
    const std::lock_guard lock(mutex_);
    --remaining_[ticket - oldest_];
    while (!remaining_.empty() && remaining_[0] == 0) {
      remaining_.pop();
      ++oldest_;
    }
    last_completion_ = monotonic_seconds();
    notify = awaited_ != 0 && is_done(awaited_);
  }
  if (notify) changed_.notify_one();
}

void Tickets::moved() {
  const std::lock_guard lock(mutex_);
  last_completion_ = monotonic_seconds();
}

bool Tickets::is_done(std::uint64_t ticket) const {
  return ticket < oldest_ || remaining_[ticket - oldest_] == 0;
}

bool Tickets::done(Ticket ticket) const {
  const std::lock_guard lock(mutex_);
  return is_done(ticket.id);
}

bool Tickets::all_done() const {
  const std::lock_guard lock(mutex_);
  return remaining_.empty();
}

bool Tickets::issued(Ticket ticket) const {
  const std::lock_guard lock(mutex_);
  return ticket.id < oldest_ + remaining_.size();
}

std::uint64_t Tickets::interruptions() const {
  const std::lock_guard lock(mutex_);
  return interruptions_;
}

Tickets::WaitResult Tickets::wait(Ticket ticket, std::uint64_t seen, double timeout) {
  const double began = monotonic_seconds();
  std::unique_lock lock(mutex_);
  awaited_ = ticket.id;
  WaitResult result = WaitResult::done;
  while (!is_done(ticket.id)) {
    if (interruptions_ != seen) {
      result = WaitResult::interrupted;
      break;
    }
    const double deadline = std::max(began, last_completion_) + timeout;
    const double now = monotonic_seconds();
    if (now >= deadline) {
      result = WaitResult::timeout;
      break;
    }
    const double turn = std::min(deadline - now, kTurnSeconds);
    changed_.wait_for(lock, std::chrono::duration<double>(turn));
    // While the process was stopped (Ctrl-Z, a frozen container), nothing could move.
    const double woke = monotonic_seconds();
    if (woke - now > turn + kTurnSeconds) last_completion_ = woke;
  }
  awaited_ = 0;
  return result;
}

void Tickets::interrupt() {
  {
    const std::lock_guard lock(mutex_);
    ++interruptions_;
  }
  changed_.notify_all();
}

}  // namespace heliograph
