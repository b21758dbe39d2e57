#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "comm/communicator.hpp"

namespace heliograph {

/// The NCCL communicator of one rank, and a stream of the rank's device on which groups of messages
/// run one after the other. Calls throw Error(resource) if NCCL or CUDA reports an error, and
/// Error(peer_lost) after give_up. One thread makes all calls, except that any thread may call
/// give_up.
class NcclLink {
 public:
  static constexpr std::size_t kIdBytes = 128;
  using Id = std::array<std::byte, kIdBytes>;

  /// The address of a device on its machine's bus.
  static std::string address(int device);
  /// Makes the id of a run: one rank calls this and tells the others.
  static Id make_id();

  /// Selects `device` for the calling thread.
  explicit NcclLink(int device);
  /// Call close or give_up before.
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  /// Begins to connect with the ranks that call it with the same id.
  void connect(const Id& id, int rank, int ranks);
  /// Whether NCCL has accepted the last request (connect, launch or leave); until then no other may
  /// be made. Also throws for what has failed since, here or on the way to a peer.
  bool ready();

  /// Begins to put one group of messages on the stream.
  void launch(std::span<const SendMessage> sends, std::span<const RecvMessage> receives);
  /// Marks the end of the group that was launched last, which must be ready.
  void mark();
  /// Whether the oldest marked group is done; if so, its mark is removed.
  bool take_done();

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

  /// Aborts the messages in flight, and returns once no buffer is accessed. NCCL's abort may never
  /// return: after `seconds` it is abandoned with all that it holds. Idempotent.
  void give_up(double seconds) noexcept;
  bool given_up() const noexcept;

 private:
  struct Shared;
  struct Marks;

  // Also held by the aborting thread, which may live longer.
  const std::shared_ptr<Shared> shared_;
  const std::unique_ptr<Marks> marks_;
};

}  // namespace heliograph
