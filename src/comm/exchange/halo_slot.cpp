#include "comm/exchange/halo_slot.hpp"

namespace heliograph {

HaloSlot::HaloSlot(Communicator& comm, Channel channel, Device& device, MemoryUse use,
                   MemoryAccount* account, int pieces)
    : comm_(comm),
      channel_(channel),
      device_(device),
      use_(use),
      account_(account),
      stages_(!device.on_host() && !comm.moves_device_memory(channel)),
      in_order_(!device.on_host() && comm.orders_on_device(channel)),
      message_memory_(device.on_host() ? nullptr : comm.message_memory(channel)),
      message_bytes_(use, uses_message_memory() ? account : nullptr),
      page_locked_(device.page_locked()),
      // Allocating or freeing page-locked memory may wait for all work of a device, even for
      // messages of stale halos, so only slots that exist from the beginning use it.
      staging_(channel == Channel::halo ? &page_locked_ : nullptr) {
  const auto messages = static_cast<std::size_t>(comm.size()) * static_cast<std::size_t>(pieces);
  send_tickets_.reserve(messages);
  held_.reserve(messages);
  receive_tickets_.reserve(static_cast<std::size_t>(pieces));
}

HaloSlot::~HaloSlot() {
  if (receiving_ || !send_tickets_.empty()) comm_.abort("the run ended with halos in flight");
  if (!uploading_ && !uses_message_memory()) return;
  try {
    device_.finish();  // Freeing the memory below does not wait for the device by itself.
  } catch (...) {
    // The device has failed and no longer uses the memory.
  }
}

void HaloSlot::take(Side& side, std::size_t bytes) {
  if (in_order_) {
    wait_for_receives();
    wait_for_sends();
  }
  if (uses_message_memory() && side.own.size() > 0) device_.finish();
  side.own = Buffer();  // The old buffer is freed first, so that both never exist together.
  side.own = Buffer(bytes, use_, uses_message_memory() ? &message_memory_ : account_);
  if (!uses_message_memory()) return;
  message_bytes_.set(static_cast<std::int64_t>(send_.own.size() + receive_.own.size()));
}

std::byte* HaloSlot::place(Side& side, std::size_t bytes) {
  side.bytes = bytes;
  if (stages_ && side.staged.size() < bytes) {
    finish_uploads();
    side.staged = Buffer();
    side.staged = Buffer(bytes, use_, staging_);
  }
  if (bytes > 0 && bytes <= side.borrowed.size()) {
    side.data = side.borrowed.data();
    return side.data;
  }
  if (side.own.size() < bytes) take(side, bytes);
  side.data = side.own.data();
  return side.data;
}

std::byte* HaloSlot::receive_buffer(std::size_t bytes) {
  if (!in_order_) wait_for_receives();
  return place(receive_, bytes);
}

std::byte* HaloSlot::send_buffer(std::size_t bytes) {
  if (!in_order_) wait_for_sends();
  return place(send_, bytes);
}

void HaloSlot::post_receives(std::span<const RecvMessage> receives) {
  if (stages_) {
    finish_uploads();
    staged_receives_.assign(receives.begin(), receives.end());
    for (RecvMessage& receive : staged_receives_) {
      receive.data = staged(receive_, receive.data);
      receive.on_device = false;
    }
    receives = staged_receives_;
  }
  if (in_order_ ? followed_ : !receiving_) receive_tickets_.clear();
  if (in_order_ && followed_) send_tickets_.clear();
  receive_tickets_.push_back(comm_.post(channel_, {}, receives));
  receiving_ = true;
  followed_ = false;
}

void HaloSlot::follow() {
  for (const Ticket received : receive_tickets_) comm_.wait_on(device_, received);
  for (const Ticket sent : send_tickets_) comm_.wait_on(device_, sent);
  followed_ = true;
}

void HaloSlot::post_send(SendMessage send) {
  if (holds_) {
    held_.push_back(send);
    return;
  }
  if (stages_) {
    std::byte* copy = staged(send_, send.data);
    device_.download(copy, send.data, send.bytes);
    send.data = copy;
    send.on_device = false;
  }
  send_tickets_.push_back(comm_.post(channel_, {&send, 1}, {}));
}

void HaloSlot::release_sends() {
  holds_ = false;
  for (const SendMessage& send : held_) post_send(send);
  held_.clear();
}

void HaloSlot::wait_for_receives() {
  if (!receiving_) return;
  for (const Ticket received : receive_tickets_) comm_.wait(received);
  receiving_ = false;
  if (!stages_) return;
  if (staging_ == nullptr) {
    device_.upload(receive_.data, receive_.staged.data(), receive_.bytes);
    return;
  }
  device_.upload_page_locked(receive_.data, receive_.staged.data(), receive_.bytes);
  uploading_ = true;
}

void HaloSlot::finish_uploads() {
  if (uploading_) device_.finish();
  uploading_ = false;
}

void HaloSlot::wait_for_sends() {
  if (!held_.empty()) release_sends();
  if (!receiving_) followed_ = true;
  while (!send_tickets_.empty()) {
    comm_.wait(send_tickets_.back());
    send_tickets_.pop_back();
  }
}

}  // namespace heliograph
