#include "comm/tickets.hpp"

#include <algorithm>
#include <chrono>

namespace heliograph {

double link_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Ticket LinkTickets::open(int messages) {
  const std::lock_guard lock(mutex_);
  remaining_.push(messages);
  return {oldest_ + remaining_.size() - 1};
}

void LinkTickets::complete(std::uint64_t ticket) {
  bool notify = false;
  {
    const std::lock_guard lock(mutex_);
    --remaining_[ticket - oldest_];
    while (!remaining_.empty() && remaining_[0] == 0) {
      remaining_.pop();
      ++oldest_;
    }
    last_completion_ = link_now();
    notify = awaited_ != 0 && is_done(awaited_);
  }
  if (notify) changed_.notify_one();
}

void LinkTickets::moved() {
  const std::lock_guard lock(mutex_);
  last_completion_ = link_now();
}

bool LinkTickets::is_done(std::uint64_t ticket) const {
  return ticket < oldest_ || remaining_[ticket - oldest_] == 0;
}

bool LinkTickets::done(Ticket ticket) const {
  const std::lock_guard lock(mutex_);
  return is_done(ticket.id);
}

bool LinkTickets::all_done() const {
  const std::lock_guard lock(mutex_);
  return remaining_.empty();
}

bool LinkTickets::issued(Ticket ticket) const {
  const std::lock_guard lock(mutex_);
  return ticket.id < oldest_ + remaining_.size();
}

std::uint64_t LinkTickets::interruptions() const {
  const std::lock_guard lock(mutex_);
  return interruptions_;
}

LinkTickets::Woken LinkTickets::wait(Ticket ticket, std::uint64_t seen, double timeout) {
  const double began = link_now();
  std::unique_lock lock(mutex_);
  awaited_ = ticket.id;
  Woken woken = Woken::done;
  while (!is_done(ticket.id)) {
    if (interruptions_ != seen) {
      woken = Woken::interrupted;
      break;
    }
    const double deadline = std::max(began, last_completion_) + timeout;
    const double left = deadline - link_now();
    if (left <= 0) {
      woken = Woken::timeout;
      break;
    }
    changed_.wait_for(lock, std::chrono::duration<double>(std::min(left, kLongestSleep)));
  }
  awaited_ = 0;
  return woken;
}

void LinkTickets::interrupt() {
  {
    const std::lock_guard lock(mutex_);
    ++interruptions_;
  }
  changed_.notify_all();
}

}  // namespace heliograph
