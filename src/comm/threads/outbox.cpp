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

LinkOutbox::LinkOutbox(int rank, int ranks, LinkShape shape, CopyBytes copy,
                       std::deque<LinkTickets>& tickets, const std::atomic<bool>& failed)
    : rank_(rank),
      copy_(copy),
      piece_(copy == copy_on_host ? kPiece : kDevicePiece),
      bytes_per_second_(shape.gbps * 1e9 / 8),
      latency_(shape.latency_us * 1e-6),
      instant_(bytes_per_second_ == 0 && latency_ == 0),
      tickets_(tickets),
      failed_(failed),
      links_(static_cast<std::size_t>(ranks), Link(bytes_per_second_)) {}

std::optional<LinkOutbox::SizeMismatch> LinkOutbox::post(int peer, Channel channel,
                                                         const Post& mine) {
  {
    const std::lock_guard lock(mutex_);
    if (failed_) return std::nullopt;
    Lane& lane = lane_of(peer, channel);
    if (lane.unmatched.empty() || lane.unmatched[0].is_send() == mine.is_send()) {
      lane.unmatched.push(mine);
      return std::nullopt;
    }
    const Post theirs = lane.unmatched[0];
    lane.unmatched.pop();
    const Post& send = mine.is_send() ? mine : theirs;
    const Post& receive = mine.is_send() ? theirs : mine;
    if (send.bytes != receive.bytes) return SizeMismatch{send.bytes, receive.bytes};

    if (instant_ && send.bytes <= kCopyOnPost && lane.matched.empty()) {
      copy_(receive.target, send.source, send.bytes);
      tickets_[static_cast<std::size_t>(rank_)].complete(send.ticket);
      tickets_[static_cast<std::size_t>(peer)].complete(receive.ticket);
      return std::nullopt;
    }
    schedule(peer, channel,
             {send.source, receive.target, send.bytes, 0, send.ticket, receive.ticket, 0});
  }
  work_.notify_one();
  return std::nullopt;
}

void LinkOutbox::schedule(int peer, Channel channel, Transfer transfer) {
  Link& link = links_[static_cast<std::size_t>(peer)];
  Lane& lane = lane_of(peer, channel);
  transfer.departs_at = now();
  if (bytes_per_second_ == 0) {
    lane.matched.push(transfer);
    ++lane.departed;
    return;
  }
  settle(link, transfer.departs_at);
  lane.matched.push(transfer);
  const int index = static_cast<int>(channel);
  if (!link.clock.busy(index)) link.clock.start(index, static_cast<double>(transfer.bytes));
}

/// Gives a departure time to all that has left the link by `now`.
void LinkOutbox::settle(Link& link, double now) {
  while (const auto departure = link.clock.advance(now)) {
    Lane& lane = link.lanes[static_cast<std::size_t>(departure->channel)];
    lane.matched[lane.departed].departs_at = departure->time;
    ++lane.departed;
    if (lane.departed < lane.matched.size()) {
      link.clock.start(departure->channel, static_cast<double>(lane.matched[lane.departed].bytes));
    }
  }
}

/// Completes what is due, and returns when something will be due next.
double LinkOutbox::deliver(double now) {
  double next = LinkClock::kNever;
  for (std::size_t peer = 0; peer < links_.size(); ++peer) {
    Link& link = links_[peer];
    if (bytes_per_second_ != 0) settle(link, now);
    for (Lane& lane : link.lanes) {
      for (; lane.sent < std::min(lane.copied, lane.departed); ++lane.sent) {
        tickets_[static_cast<std::size_t>(rank_)].complete(lane.matched[lane.sent].send_ticket);
      }
      while (lane.sent > 0 && lane.matched[0].departs_at + latency_ <= now) {
        tickets_[peer].complete(lane.matched[0].receive_ticket);
        lane.matched.pop();
        --lane.departed;
        --lane.copied;
        --lane.sent;
      }
      if (lane.sent > 0) next = std::min(next, lane.matched[0].departs_at + latency_);
    }
    next = std::min(next, link.clock.next_departure());
  }
  return next;
}

/// Copies a piece of the next message in turn, the lock released meanwhile. False: none is left.
bool LinkOutbox::copy_one_piece(std::unique_lock<std::mutex>& lock) {
  const std::size_t lanes = links_.size() * kChannels;
  for (std::size_t i = 0; i < lanes; ++i) {
    const std::size_t index = (next_lane_ + i) % lanes;
    Lane& lane = links_[index / kChannels].lanes[index % kChannels];
    if (lane.copied == lane.matched.size()) continue;

    next_lane_ = (index + 1) % lanes;
    const Transfer transfer = lane.matched[lane.copied];
    const std::size_t piece = std::min(piece_, transfer.bytes - transfer.bytes_copied);
    copying_ = true;
    lock.unlock();
    std::exception_ptr failure;
    try {
      copy_(transfer.target + transfer.bytes_copied, transfer.source + transfer.bytes_copied,
            piece);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    copying_ = false;
    idle_.notify_all();
    if (failure) std::rethrow_exception(failure);

    Transfer& copied = lane.matched[lane.copied];  // The ring may have grown meanwhile.
    copied.bytes_copied += piece;
    if (copied.bytes_copied == copied.bytes) ++lane.copied;
    return true;
  }
  return false;
}

void LinkOutbox::serve() {
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
      const double left = next - link_now();
      if (left > 0) {
        work_.wait_for(lock, std::chrono::duration<double>(std::min(left, kLongestSleep)));
      }
    }
  }
}

void LinkOutbox::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  work_.notify_all();
}

void LinkOutbox::quiesce() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return !copying_; });
}

LinkOutbox::State LinkOutbox::state(int peer, Channel channel, bool sending,
                                    std::uint64_t ticket) const {
  const std::lock_guard lock(mutex_);
  const Lane& lane =
      links_[static_cast<std::size_t>(peer)].lanes[static_cast<std::size_t>(channel)];
  for (std::size_t i = 0; i < lane.unmatched.size(); ++i) {
    const Post& post = lane.unmatched[i];
    if (post.is_send() == sending && post.ticket == ticket) return State::unmatched;
  }
  for (std::size_t i = sending ? lane.sent : 0; i < lane.matched.size(); ++i) {
    const Transfer& transfer = lane.matched[i];
    if ((sending ? transfer.send_ticket : transfer.receive_ticket) == ticket) return State::moving;
  }
  return State::not_here;
}

}  // namespace heliograph
