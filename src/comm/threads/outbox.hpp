#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "comm/clock.hpp"
#include "comm/ring.hpp"
#include "comm/threads/link_clock.hpp"
#include "comm/threads/transport.hpp"
#include "comm/tickets.hpp"

namespace heliograph {

/// The outgoing links of one rank. Matches each send with the receive that was posted for it. The
/// rank's communication thread, inside `serve`, copies the bytes straight from the sender's buffer
/// to the receiver's. Without a rate and a latency, `post` itself may copy a small message. The
/// sender's ticket completes when the message is copied and has left the link, the receiver's
/// after the latency as well. Thread-safe. Takes the locks of Tickets while it holds its own.
class Outbox {
 public:
  /// One end of a message; the pointer of the other end is null.
  struct Post {
    const std::byte* source = nullptr;
    std::byte* target = nullptr;
    std::size_t bytes = 0;
    std::uint64_t ticket = 0;
    bool on_device = false;

    bool is_send() const { return source != nullptr; }
  };

  struct SizeMismatch {
    std::size_t sent;
    std::size_t expected;
  };

  /// `delayed`: all its bytes have moved, and it waits out the latency.
  enum class State : std::uint8_t { not_here, unmatched, moving, delayed };

  /// `tickets[r]` are those of rank r; no byte moves once `failed` is set. Both outlive this.
  Outbox(int rank, int ranks, LinkShape shape, CopyBytes copy, std::deque<Tickets>& tickets,
         const std::atomic<bool>& failed);

  /// Posts one end of a message from this rank to `peer`. Sizes that disagree are reported, and
  /// neither end completes.
  std::optional<SizeMismatch> post(int peer, Channel channel, const Post& mine);

  /// Prepares for this many messages to `peer` in flight at a time.
  void expect(int peer, Channel channel, std::size_t messages);

  /// Where the sending (or receiving) end of the batch `ticket` to `peer` stands.
  State state(int peer, Channel channel, bool sending, std::uint64_t ticket) const;
  double latency_seconds() const { return latency_; }

  /// Moves bytes until stop is called. Throws what the copy throws.
  void serve();
  void stop();

  /// Returns when no copy is running. Once `failed` is set, none starts.
  void quiesce();

 private:
  struct Transfer {
    const std::byte* source;
    std::byte* target;
    std::size_t bytes;
    std::size_t bytes_copied;
    std::uint64_t send_ticket;
    std::uint64_t receive_ticket;
    double departs_at;
    CopyBytes copy;  ///< That of the host if both ends lie there.
  };

  // Transfers are done in order, so each counter below is the number of the oldest transfers that
  // have reached a certain state.
  struct Queue {
    Ring<Post> unmatched;  // All sends or all receives.
    Ring<Transfer> matched;
    std::size_t departed = 0;  // Transfers whose departure time is known.
    std::size_t copied = 0;
    std::size_t sent = 0;  // Transfers that have departed and are copied, so the sender is done.
  };

  struct Link {
    explicit Link(double bytes_per_second) : clock(bytes_per_second) {}
    LinkClock clock;
    std::array<Queue, kChannels> queues;
  };

  Queue& queue_of(int peer, Channel channel) {
    return links_[static_cast<std::size_t>(peer)].queues[static_cast<std::size_t>(channel)];
  }
  double now() const { return instant_ ? 0 : monotonic_seconds(); }
  void schedule(int peer, Channel channel, Transfer transfer);
  void set_departures(Link& link, double now);
  double deliver(double now);
  bool copy_one_piece(std::unique_lock<std::mutex>& lock);

  const int rank_;
  const CopyBytes copy_;
  const double bytes_per_second_;  // 0: as fast as memory.
  const double latency_;           // Seconds.
  const bool instant_;             // Neither a rate nor a latency: no clock is read.
  std::deque<Tickets>& tickets_;
  const std::atomic<bool>& failed_;

  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable idle_;
  std::vector<Link> links_;
  std::size_t next_queue_ = 0;  // Where the round robin of copies goes on.
  bool copying_ = false;
  bool stopped_ = false;
};

}  // namespace heliograph
