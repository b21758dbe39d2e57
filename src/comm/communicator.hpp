#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/device.hpp"
#include "heliograph/error.hpp"

namespace heliograph {

/// Independent queues between the same two ranks, so that weights never wait behind stale halos.
enum class Channel : std::uint8_t { halo = 0, weights = 1, evaluation = 2, moments = 3 };
inline constexpr int kChannels = 4;

/// "halo", "weights", "evaluation" or "moments".
std::string_view channel_name(Channel channel) noexcept;

struct SendMessage {
  int peer;
  const std::byte* data;
  std::size_t bytes;
  bool on_device = false;  ///< Whether `data` lies in a device's memory.
};

struct RecvMessage {
  int peer;
  std::byte* data;
  std::size_t bytes;
  bool on_device = false;  ///< Whether `data` lies in a device's memory.
};

/// Names a posted batch until it has been waited for. A default ticket names an empty batch, which
/// is done.
struct Ticket {
  std::uint64_t id = 0;
};

/// What the rank is doing, for the message that names a failure. Set by the trainer.
struct Progress {
  int epoch = -1;
  int layer = -1;
};

/// "rank 2", "rank 2, epoch 3" or "rank 2, epoch 3, layer 1": what is set, no more.
std::string describe_rank(int rank, Progress progress);

/// Point-to-point messages between the ranks of one run. One per rank; used by that rank's thread
/// only (abort excepted). Posting order is the contract: the n-th send from a to b on a channel
/// meets the n-th receive that b posts for a on that channel, and their sizes must agree. No tags.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Starts the messages and returns at once; bytes travel while the rank computes. Buffers stay
  /// untouched until wait returns. Zero-sized messages are left out on both sides. At most one
  /// send and one receive for each peer in a batch; none to oneself.
  /// Allocates nothing in the steady state.
  /// Throws Error(usage) for a batch that breaks these rules, before any of it is posted, and
  /// Error(peer_lost) as wait does.
  virtual Ticket post(Channel channel, std::span<const SendMessage> sends,
                      std::span<const RecvMessage> receives) = 0;

  /// Tells the transport that no more messages follow for now, so that it sends what it has
  /// gathered. Never waits for messages to be done. Throws what `post` throws. `wait` and `done`
  /// flush too.
  virtual void flush() {}

  /// Whether the messages posted between two flushes travel as one group, and the next group starts
  /// only when all of it is done. Sends and receives of one piece must then be flushed together
  /// on every rank, and buffers must be in no other use from the flush on.
  /// A group occupies its device until the other ranks have flushed theirs. CUDA calls that may
  /// wait for all work of a device, as those that allocate, free or load something do, would then
  /// wait for ranks that may wait for the caller. So everything of that kind is done in a
  /// rehearsal, or while no rank has a message in flight.
  virtual bool sends_in_groups() const { return false; }

  /// Whether devices themselves order messages of `channel` in device memory and their work, so
  /// that no host waits for either: by `flush_after` and `wait_on`.
  virtual bool orders_on_device(Channel) const { return false; }
  /// Prepares for this many messages of Channel::halo to and from each peer in flight at a time, so
  /// that posting them allocates nothing after the first. Called while none is. Where devices order
  /// messages, more have to wait.
  virtual void expect_messages(std::size_t) {}
  /// Flushes messages that begin when the work that `device` was asked for so far is done.
  virtual void flush_after(Device& device);
  /// Makes work that `device` is asked for from now on wait for every message of the ticket, which
  /// must be flushed. Later waits of the host for the device throw what `wait` throws. It must be
  /// waited for before the communicator ends.
  virtual void wait_on(Device& device, Ticket ticket);

  /// While true, a transport that sends in groups begins each flush when all ranks have come to it
  /// and ends it when the messages of all ranks are done. So what ranks do between two flushes
  /// meets no message in flight. Collective, and every rank flushes after the same pieces.
  virtual void rehearse(bool) {}

  /// Blocks until every message of the ticket is done.
  /// Throws Error(peer_lost): a deadline passed without progress, a peer failed, sizes disagree.
  /// From then on the transport touches no buffer of this rank. Throws Error(usage) for a ticket
  /// that post never gave, as done does.
  virtual void wait(Ticket ticket) = 0;

  /// True once wait would return, or throw, at once.
  virtual bool done(Ticket ticket) = 0;

  /// Whether messages of `channel` may lie in memory of the ranks' devices. They say so.
  virtual bool moves_device_memory(Channel) const { return false; }

  /// The source of all device memory that holds messages of `channel`; null: any memory will do.
  /// The rank's thread takes and gives back such memory while none of its messages is in flight, or
  /// after abort, and when the kernels that use it are done.
  virtual MemorySource* message_memory(Channel) { return nullptr; }

  /// Throws Error(peer_lost), as `wait` would, if the run is known to have failed.
  virtual void throw_if_failed() {}

  /// Ends every wait of every rank with Error(peer_lost) that carries this rank, its progress and
  /// `reason`. Idempotent, callable from any thread. When it returns the transport touches no
  /// buffer of this rank any more: whoever owns buffers with messages in flight and must free them
  /// (as when an exception passes) calls it first. Ranks in other processes are then told the
  /// exception that passes instead of `reason`, if it leaves this rank's work within 0.2 s.
  virtual void abort(const std::string& reason) noexcept = 0;

  /// Bytes handed to the transport so far by this rank on `channel`.
  virtual std::int64_t bytes_sent(Channel channel) const = 0;

  void set_progress(Progress progress) noexcept {
    epoch_.store(progress.epoch, std::memory_order_relaxed);
    layer_.store(progress.layer, std::memory_order_relaxed);
  }
  Progress progress() const noexcept {
    return {epoch_.load(std::memory_order_relaxed), layer_.load(std::memory_order_relaxed)};
  }

 private:
  // Atomic because abort reads them from any thread.
  std::atomic<int> epoch_{-1};
  std::atomic<int> layer_{-1};
};

}  // namespace heliograph
