#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "core/buffer.hpp"
#include "core/device.hpp"
#include "core/packed_rows.hpp"

namespace heliograph {

/// A send and a receive buffer on a device, and the messages that are in flight from and into them.
/// Exchanges may share a slot where one's rows are consumed before the next one starts. Buffers
/// grow to the largest exchange and are then kept. Where the transport cannot reach them, messages
/// lie in copies on the host; where it has memory of its own for messages, they lie there.
/// Used by the rank's own thread.
class HaloSlot {
 public:
  /// References must outlive the slot. `channel`: of all its messages; `use`: where its buffers
  /// are counted; `account`: of the device's memory.
  HaloSlot(Communicator& comm, Channel channel, Device& device, MemoryUse use,
           MemoryAccount* account);
  /// Aborts the communicator if messages are in flight (an exception is passing): their buffers
  /// must not be freed under a transport that still uses them.
  ~HaloSlot();
  HaloSlot(const HaloSlot&) = delete;
  HaloSlot& operator=(const HaloSlot&) = delete;

  /// Memory to use where it is large enough, before any of its own: 64-byte aligned, with 64
  /// readable bytes past its end, and nobody else's until the slot has waited for its messages.
  void borrow(std::span<std::byte> send, std::span<std::byte> receive) {
    send_.borrowed = send;
    receive_.borrowed = receive;
  }

  /// Waits for the receives in flight and returns a receive buffer of at least `bytes`. What the
  /// old one held is lost.
  std::byte* receive_buffer(std::size_t bytes);
  /// Waits for the sends in flight and returns a send buffer of at least `bytes`. What the old one
  /// held is lost.
  std::byte* send_buffer(std::size_t bytes);

  /// Posts receives into places of the receive buffer.
  void post_receives(std::span<const RecvMessage> receives);
  /// Posts the send of a place of the send buffer, which kernels have written.
  void post_send(SendMessage send);

  /// From now on messages to send stay here; `release_sends` posts them, in their order.
  void hold_sends() { holds_ = true; }
  void release_sends();

  void wait_for_receives();
  void wait_for_sends();

  /// What has been received so far; valid after wait_for_receives.
  const std::byte* received() const { return receive_.data; }

  /// Who may read what was received: set by the exchange that is opened in this slot.
  const void* user = nullptr;
  /// Of what was received, set likewise.
  RowFormat format;

 private:
  struct Side {
    Buffer own;
    std::span<std::byte> borrowed;
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    Buffer staged;  ///< The copy on the host.
  };
  std::byte* place(Side& side, std::size_t bytes);
  void take(Side& side, std::size_t bytes);
  /// What was received may be written anew.
  void finish_uploads();
  bool uses_message_memory() const { return !message_memory_.counts_only(); }
  /// The place in the host's copy of a place in the buffer.
  static std::byte* staged(const Side& side, const std::byte* at) {
    return side.staged.data() + (at - side.data);
  }

  Communicator& comm_;
  const Channel channel_;
  Device& device_;
  MemoryUse use_;
  MemoryAccount* account_;
  const bool stages_;
  MemoryAccount message_memory_;  ///< Counts only where the transport has none.
  CountedBytes message_bytes_;    ///< Of that memory, in the account of the device's memory.
  MemoryAccount page_locked_;
  MemoryAccount* staging_;  ///< Null: the heap.
  Side send_, receive_;
  std::vector<RecvMessage> staged_receives_;
  Ticket receive_ticket_;
  bool receiving_ = false;
  bool uploading_ = false;  ///< The device may still copy out of what was staged.
  bool holds_ = false;
  std::vector<SendMessage> held_;
  std::vector<Ticket> send_tickets_;  ///< Of the messages that have not been waited for.
};

}  // namespace heliograph
