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
/// Exchanges may share a slot if the rows of each are consumed before the next one starts. Buffers
/// grow to the size of the largest exchange and are then kept. If the transport cannot access
/// device memory, messages are staged on the host; if it provides memory for messages, buffers lie
/// there.
/// Only the rank's own thread uses it.
class HaloSlot {
 public:
  /// References must outlive the slot. All messages travel on `channel`; `account` counts the
  /// buffers, as `use`, in device memory. An exchange has up to `pieces` messages to and from a
  /// peer.
  HaloSlot(Communicator& comm, Channel channel, Device& device, MemoryUse use,
           MemoryAccount* account, int pieces = 1);
  /// Aborts the communicator if messages are in flight (an exception is passing): their buffers
  /// must not be freed under a transport that still uses them.
  ~HaloSlot();
  HaloSlot(const HaloSlot&) = delete;
  HaloSlot& operator=(const HaloSlot&) = delete;

  /// Lends the slot memory, which it uses instead of memory of its own wherever that is large
  /// enough. The memory must be 64-byte aligned, with 64 readable bytes past its end, and nothing
  /// else may use it until the slot has waited for its messages.
  void borrow(std::span<std::byte> send, std::span<std::byte> receive) {
    send_.borrowed = send;
    receive_.borrowed = receive;
  }

  /// Whether the device orders messages and its work (Communicator::orders_on_device). Then no call
  /// below but `wait_for_...` waits, unless a buffer grows: work that uses a buffer anew is asked
  /// for after `follow`.
  bool in_order() const { return in_order_; }

  /// Waits for the receives in flight and returns a receive buffer of at least `bytes`. The
  /// contents of the old one are lost.
  std::byte* receive_buffer(std::size_t bytes);
  /// Waits for the sends in flight and returns a send buffer of at least `bytes`. The contents of
  /// the old one are lost.
  std::byte* send_buffer(std::size_t bytes);

  /// Posts receives into parts of the receive buffer.
  void post_receives(std::span<const RecvMessage> receives);
  /// Posts the send of a part of the send buffer, which kernels have written.
  void post_send(SendMessage send);

  /// Holds back all later sends until `release_sends` posts them, in order.
  void hold_sends() { holds_ = true; }
  void release_sends();

  void wait_for_receives();
  void wait_for_sends();

  /// If the device orders messages: makes its later work wait for those of this slot, which are
  /// flushed.
  void follow();
  /// Whether `follow` or a wait of the host has come after all messages.
  bool followed() const { return followed_; }
  /// If the device orders messages: flushes what was posted, behind the work asked for so far.
  void flush() { comm_.flush_after(device_); }

  /// The start of the receive buffer. Its contents are valid after wait_for_receives.
  const std::byte* received() const { return receive_.data; }

  /// The start of the send buffer, whose contents stay until `send_buffer` is next called.
  std::byte* sent() const { return send_.data; }

  /// The exchange that may read the received rows. An exchange sets it when it opens in this slot.
  const void* user = nullptr;
  /// The format of the received rows and the epoch in which they were sent, set by the same
  /// exchange.
  RowFormat format;
  std::int64_t epoch = 0;

 private:
  struct Side {
    Buffer own;
    std::span<std::byte> borrowed;
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    Buffer staged;  ///< The copy of the buffer on the host.
  };
  std::byte* place(Side& side, std::size_t bytes);
  void take(Side& side, std::size_t bytes);
  /// Waits until the received rows may be overwritten.
  void finish_uploads();
  bool uses_message_memory() const { return !message_memory_.counts_only(); }
  /// The place in the copy on the host that corresponds to the place `at` in the buffer.
  static std::byte* staged(const Side& side, const std::byte* at) {
    return side.staged.data() + (at - side.data);
  }

  Communicator& comm_;
  const Channel channel_;
  Device& device_;
  MemoryUse use_;
  MemoryAccount* account_;
  const bool stages_;
  const bool in_order_;
  MemoryAccount message_memory_;  ///< Only counts bytes if the transport provides no memory.
  CountedBytes message_bytes_;    ///< The bytes of that memory, counted in account_.
  MemoryAccount page_locked_;
  MemoryAccount* staging_;  ///< The source of staged memory; the heap if null.
  Side send_, receive_;
  std::vector<RecvMessage> staged_receives_;
  /// The tickets of the last receives, kept for `follow` after they were waited for: a device's
  /// graph must have the same segments whatever is done by then. At first that of an empty batch.
  std::vector<Ticket> receive_tickets_{Ticket{}};
  bool receiving_ = false;
  bool followed_ = true;
  bool uploading_ = false;  ///< Whether the device may still read staged rows.
  bool holds_ = false;
  std::vector<SendMessage> held_;
  std::vector<Ticket> send_tickets_;  ///< The tickets of sends not waited for yet.
};

}  // namespace heliograph
