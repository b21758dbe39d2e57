#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "comm/communicator.hpp"

namespace heliograph {

/// What one rank has with NCCL: its communicator, and a stream of one device on which groups of
/// messages happen, one after the other. No call but give_up waits, and all throw Error(resource)
/// where NCCL or CUDA refuse, Error(peer_lost) once given up. Used by one thread, give_up by any.
class NcclLink {
 public:
  static constexpr std::size_t kIdBytes = 128;
  using Id = std::array<std::byte, kIdBytes>;

  /// The address of a device on its machine's bus.
  static std::string address(int device);
  /// For one rank to call and tell the others.
  static Id make_id();

  /// Selects `device` for the calling thread.
  explicit NcclLink(int device);
  /// After close or give_up.
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  /// Begins to connect with the ranks that call it with the same id.
  void connect(const Id& id, int rank, int ranks);
  /// Whether what was asked last (to connect, launch or leave) has been taken up by NCCL; nothing
  /// else may be asked before. Throws also what failed since, here or on the way to a peer.
  bool ready();

  /// Begins to put one group of messages on the stream.
  void launch(std::span<const SendMessage> sends, std::span<const RecvMessage> receives);
  /// The group that was launched last, and is ready, counts from now on.
  void mark();
  /// Whether the oldest group that counts is done; if it is, it counts no more.
  bool take_done();

  /// Whether NCCL can register memory: from 2.19 on.
  static bool registers() noexcept;
  /// Zeroed memory of the device that NCCL knows from now on, so that it may move messages from and
  /// into it without a copy between. This and giving it back may wait for all that the device does.
  std::byte* take_registered(std::size_t bytes);
  /// Kernels that use it are done. Of what was given up it waits for the end, or for `seconds`, and
  /// leaves the memory where it is if there is none.
  void give_back_registered(std::byte* begin, double seconds) noexcept;

  /// Begins to take leave of the others.
  void leave();
  /// Once left, or never connected: frees what there is.
  void close();

  /// Ends what is in flight, and returns once no buffer is touched any more. NCCL's abort may never
  /// return: after `seconds` it is left behind, with all that it holds. Idempotent.
  void give_up(double seconds) noexcept;
  bool given_up() const noexcept;

 private:
  struct Shared;
  struct Marks;

  const std::shared_ptr<Shared> shared_;  // With the thread that aborts, which may outlive this.
  const std::unique_ptr<Marks> marks_;
};

}  // namespace heliograph
