#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "comm/communicator.hpp"

namespace heliograph {

namespace cuda {
class Queue;
}

/// An NCCL communicator of one rank, and a stream of the rank's device on which groups of messages
/// run one after the other. A thread of its own launches them, since NCCL may keep a thread that
/// does. Calls throw Error(resource) if NCCL or CUDA reports an error, and Error(peer_lost) after
/// give_up. One thread makes all calls, except that any may call begin_to_give_up and give_up.
class NcclLink {
 public:
  static constexpr std::size_t kIdBytes = 128;
  using Id = std::array<std::byte, kIdBytes>;
  /// Links of a rank that share it launch their groups in the order in which they were asked, which
  /// is the same on all ranks.
  struct Turns {
    std::uint64_t asked = 0;  ///< Groups so far, counted by the thread that makes all calls.
    std::atomic<std::uint64_t> launched{0};
  };

  /// The address of a device on its machine's bus.
  static std::string address(int device);
  /// Makes the id of a run: one rank calls this and tells the others.
  static Id make_id();

  /// Selects `device` for the calling thread.
  explicit NcclLink(int device, std::shared_ptr<Turns> turns = std::make_shared<Turns>());
  /// Call close or give_up before.
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  /// Begins to connect with the ranks that call it with the same id.
  void connect(const Id& id, int rank, int ranks);
  /// Whether NCCL has accepted the last request (connect or leave); until then no other may be
  /// made, and no group launched. Throws for what has failed since, here or on the way to a peer.
  bool ready();

  /// Makes room for this many groups that are not done. There must be none.
  void reserve(std::size_t groups);
  bool has_room() const;
  /// Has a group of messages launched, for which there must be room. It begins when the work that
  /// `after` was asked for so far is done, or at once if that is null.
  void launch(std::span<const SendMessage> sends, std::span<const RecvMessage> receives,
              cuda::Queue* after);
  /// The number of groups that are on the stream. Throws like `ready`, also for failed launches.
  std::uint64_t launched();
  /// Makes work that `queue` is asked for from now on wait for the `group`-th group, which must be
  /// on the stream and not taken. `look` is that of Queue::wait_for.
  void join(std::uint64_t group, cuda::Queue& queue, const std::function<void(bool)>& look);
  /// Whether the oldest group that was not taken is done; if so, takes it.
  bool take_done();
  /// Whether what the oldest group that was not taken has to wait for on its own device is done, or
  /// there is no such group.
  bool oldest_begins() const;
  /// The number of groups that were not taken before the one whose launch failed; 0 if none did.
  std::size_t under_way_before_failure() const;

  /// Whether NCCL can register memory: from 2.19 on.
  static bool registers() noexcept;
  /// Allocates zeroed memory of the device and registers it with NCCL, which then moves messages
  /// from and into it without a copy in between. This and giving it back may wait for all that the
  /// device does.
  std::byte* take_registered(std::size_t bytes);
  /// Frees such memory; the kernels that use it must be done. After give_up it waits for NCCL to
  /// end, but at most for `seconds`, and leaves the memory where it is if NCCL does not.
  void give_back_registered(std::byte* begin, double seconds) noexcept;

  /// Begins to leave the other ranks.
  void leave();
  /// Frees the communicator and the stream, once this rank has left or if it never connected.
  void close();

  /// Has the messages in flight aborted, without waiting. Idempotent.
  void begin_to_give_up() noexcept;
  /// The same, and returns once no buffer is accessed. NCCL's abort may never return: after
  /// `seconds` it is abandoned with all that it holds. Idempotent.
  void give_up(double seconds) noexcept;
  bool given_up() const noexcept;

 private:
  struct Shared;

  // Also held by the launching and the aborting thread, which may live longer.
  const std::shared_ptr<Shared> shared_;
  std::uint64_t asked_ = 0;  ///< Groups that were to be launched so far.
  std::uint64_t taken_ = 0;
};

}  // namespace heliograph
