#include "comm/halo_slot.hpp"

namespace heliograph {

HaloSlot::HaloSlot(Communicator& comm, MemoryRoom room, MemoryAccount* account)
    : comm_(comm), room_(room), account_(account) {
  send_tickets_.reserve(static_cast<std::size_t>(comm.size()));
  held_.reserve(static_cast<std::size_t>(comm.size()));
}

HaloSlot::~HaloSlot() {
  if (receiving_ || !send_tickets_.empty()) comm_.abort("the run ended with halos in flight");
}

std::byte* HaloSlot::place(Side& side, std::size_t bytes) {
  if (bytes > 0 && bytes <= side.borrowed.size()) {
    side.data = side.borrowed.data();
    return side.data;
  }
  if (side.own.size() < bytes) {
    side.own = Buffer();  // Goes before the larger one is made: they never weigh together.
    side.own = Buffer(bytes, room_, account_);
  }
  side.data = side.own.data();
  return side.data;
}

std::byte* HaloSlot::receive_buffer(std::size_t bytes) {
  wait_for_receives();
  return place(receive_, bytes);
}

std::byte* HaloSlot::send_buffer(std::size_t bytes) {
  wait_for_sends();
  return place(send_, bytes);
}

void HaloSlot::post_receives(Channel channel, std::span<const RecvMessage> receives) {
  receive_ticket_ = comm_.post(channel, {}, receives);
  receiving_ = true;
}

void HaloSlot::post_send(Channel channel, SendMessage send) {
  if (holds_) {
    held_.emplace_back(channel, send);
    return;
  }
  send_tickets_.push_back(comm_.post(channel, {&send, 1}, {}));
}

void HaloSlot::release_sends() {
  holds_ = false;
  for (const auto& [channel, send] : held_) post_send(channel, send);
  held_.clear();
}

void HaloSlot::wait_for_receives() {
  if (!receiving_) return;
  comm_.wait(receive_ticket_);
  receiving_ = false;
}

void HaloSlot::wait_for_sends() {
  if (!held_.empty()) release_sends();
  while (!send_tickets_.empty()) {
    comm_.wait(send_tickets_.back());
    send_tickets_.pop_back();
  }
}

}  // namespace heliograph
