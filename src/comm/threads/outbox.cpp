#include "comm/threads/outbox.hpp"

#include <algorithm>
#include <chrono>
#include <exception>

namespace heliograph {
namespace {

// A message this small is copied by the rank that posts second: cheaper than waking a thread.
constexpr std::size_t kCopyOnPost = 16 * 1024;

// Copies go piece by piece so that a large message does not hold up what is due elsewhere.
constexpr std::size_t kPiece = 256 * 1024;
constexpr std::size_t kDevicePiece = 8 * 1024 * 1024;  // Each costs a launch and a wait.

}  // namespace

Outbox::Outbox(int rank, int ranks, LinkShape shape, CopyBytes copy, std::deque<Tickets>& tickets,
               const std::atomic<bool>& failed)
    : rank_(rank),
      copy_(copy),
      bytes_per_second_(shape.gbps * 1e9 / 8),
      latency_(shape.latency_us * 1e-6),
      instant_(bytes_per_second_ == 0 && latency_ == 0),
      tickets_(tickets),
      failed_(failed),
      links_(static_cast<std::size_t>(ranks), Link(bytes_per_second_)) {}

std::optional<Outbox::SizeMismatch> Outbox::post(int peer, Channel channel, const Post& mine) {
  {
    const std::lock_guard lock(mutex_);
    if (failed_) return std::nullopt;
    Queue& queue = queue_of(peer, channel);
    if (queue.unmatched.empty() || queue.unmatched[0].is_send() == mine.is_send()) {
      queue.unmatched.push(mine);
      return std::nullopt;
    }
    const Post theirs = queue.unmatched[0];
    queue.unmatched.pop();
    const Post& send = mine.is_send() ? mine : theirs;
    const Post& receive = mine.is_send() ? theirs : mine;
    if (send.bytes != receive.bytes) return SizeMismatch{send.bytes, receive.bytes};

    const CopyBytes copy = send.on_device || receive.on_device ? copy_ : copy_on_host;
    if (instant_ && send.bytes <= kCopyOnPost && queue.matched.empty()) {
      copy(receive.target, send.source, send.bytes);
      tickets_[static_cast<std::size_t>(rank_)].complete(send.ticket);
      tickets_[static_cast<std::size_t>(peer)].complete(receive.ticket);
      return std::nullopt;
    }
    schedule(peer, channel,
             {send.source, receive.target, send.bytes, 0, send.ticket, receive.ticket, 0, copy});
  }
  work_.notify_one();
  return std::nullopt;
}

void Outbox::expect(int peer, Channel channel, std::size_t messages) {
  const std::lock_guard lock(mutex_);
  Queue& queue = queue_of(peer, channel);
  queue.unmatched.expect(messages);
  queue.matched.expect(messages);
}

void Outbox::schedule(int peer, Channel channel, Transfer transfer) {
  Link& link = links_[static_cast<std::size_t>(peer)];
  Queue& queue = queue_of(peer, channel);
  transfer.departs_at = now();
  if (bytes_per_second_ == 0) {
    queue.matched.push(transfer);
    ++queue.departed;
    return;
  }
  set_departures(link, transfer.departs_at);
  queue.matched.push(transfer);
  const int index = static_cast<int>(channel);
  if (!link.clock.busy(index)) link.clock.start(index, static_cast<double>(transfer.bytes));
}

/// Gives a departure time to all that has left the link by `now`.
void Outbox::set_departures(Link& link, double now) {
  while (const auto departure = link.clock.advance(now)) {
    Queue& queue = link.queues[static_cast<std::size_t>(departure->channel)];
    queue.matched[queue.departed].departs_at = departure->time;
    ++queue.departed;
    if (queue.departed < queue.matched.size()) {
      link.clock.start(departure->channel,
                       static_cast<double>(queue.matched[queue.departed].bytes));
    }
  }
}

/// Completes what is due, and returns when something will be due next.
double Outbox::deliver(double now) {
  double next = LinkClock::kNever;
  for (std::size_t peer = 0; peer < links_.size(); ++peer) {
    Link& link = links_[peer];
    if (bytes_per_second_ != 0) set_departures(link, now);
    for (Queue& queue : link.queues) {
      for (; queue.sent < std::min(queue.copied, queue.departed); ++queue.sent) {
        tickets_[static_cast<std::size_t>(rank_)].complete(queue.matched[queue.sent].send_ticket);
      }
      while (queue.sent > 0 && queue.matched[0].departs_at + latency_ <= now) {
        tickets_[peer].complete(queue.matched[0].receive_ticket);
        queue.matched.pop();
        --queue.departed;
        --queue.copied;
        --queue.sent;
      }
      if (queue.sent > 0) next = std::min(next, queue.matched[0].departs_at + latency_);
    }
    next = std::min(next, link.clock.next_departure());
  }
  return next;
}

/// Copies a piece of the next message in turn, the lock released meanwhile. False: none is left.
bool Outbox::copy_one_piece(std::unique_lock<std::mutex>& lock) {
  const std::size_t queues = links_.size() * kChannels;
  for (std::size_t i = 0; i < queues; ++i) {
    const std::size_t index = (next_queue_ + i) % queues;
    Queue& queue = links_[index / kChannels].queues[index % kChannels];
    if (queue.copied == queue.matched.size()) continue;

    next_queue_ = (index + 1) % queues;
    const Transfer transfer = queue.matched[queue.copied];
    const std::size_t most = transfer.copy == copy_on_host ? kPiece : kDevicePiece;
    const std::size_t piece = std::min(most, transfer.bytes - transfer.bytes_copied);
    copying_ = true;
    lock.unlock();
    std::exception_ptr failure;
    try {
      transfer.copy(transfer.target + transfer.bytes_copied,
                    transfer.source + transfer.bytes_copied, piece);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    copying_ = false;
    idle_.notify_all();
    if (failure) std::rethrow_exception(failure);

    Transfer& copied = queue.matched[queue.copied];  // The ring may have grown meanwhile.
    copied.bytes_copied += piece;
    if (copied.bytes_copied == copied.bytes) ++queue.copied;
    return true;
  }
  return false;
}

void Outbox::serve() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    if (failed_) {
      work_.wait(lock);
      continue;
    }
    const double next = deliver(now());
    if (copy_one_piece(lock)) continue;
    if (next == LinkClock::kNever) {
      work_.wait(lock);
    } else {
      const double left = next - monotonic_seconds();
      if (left > 0) {
        work_.wait_for(lock, std::chrono::duration<double>(std::min(left, kLongestSleep)));
      }
    }
  }
}

void Outbox::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  work_.notify_all();
}

void Outbox::quiesce() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return !copying_; });
}

Outbox::State Outbox::state(int peer, Channel channel, bool sending, std::uint64_t ticket) const {
  const std::lock_guard lock(mutex_);
  const Queue& queue =
      links_[static_cast<std::size_t>(peer)].queues[static_cast<std::size_t>(channel)];
  for (std::size_t i = 0; i < queue.unmatched.size(); ++i) {
    const Post& post = queue.unmatched[i];
    if (post.is_send() == sending && post.ticket == ticket) return State::unmatched;
  }
  for (std::size_t i = sending ? queue.sent : 0; i < queue.matched.size(); ++i) {
    const Transfer& transfer = queue.matched[i];
    if ((sending ? transfer.send_ticket : transfer.receive_ticket) == ticket) {
      return i < queue.sent ? State::delayed : State::moving;
    }
  }
  return State::not_here;
}

}  // namespace heliograph
