#include "support/faulty_communicator.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "comm/batch.hpp"

namespace heliograph::test {

FaultyCommunicator::FaultyCommunicator(Communicator& inner, const Faults& faults)
    : inner_(inner),
      faults_(faults),
      random_(faults.seed * 1000003 + static_cast<std::uint64_t>(inner.rank())) {}

void FaultyCommunicator::misbehave() {
  ++calls_;
  inner_.set_progress(progress());
  if (faults_.delay_us > 0) {
    const double us = std::uniform_real_distribution<double>(0, faults_.delay_us)(random_);
    std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(us));
  }
  if (calls_ == faults_.fail_on_call) {
    throw Error(faults_.code, "injected fault on call " + std::to_string(calls_));
  }
}

void FaultyCommunicator::release(const Held& message) {
  const Ticket inner = message.send ? inner_.post(message.channel, {&*message.send, 1}, {})
                                    : inner_.post(message.channel, {}, {&*message.receive, 1});
  parts_.push_back({message.ticket, inner});
}

void FaultyCommunicator::release_all() {
  for (const Held& message : held_) release(message);
  held_.clear();
}

Ticket FaultyCommunicator::post(Channel channel, std::span<const SendMessage> sends,
                                std::span<const RecvMessage> receives) {
  misbehave();
  release_all();
  messages_sent_[channel] += count_messages(sends, {});
  const Ticket ticket{++last_ticket_};
  if (!faults_.reorder) {
    parts_.push_back({ticket.id, inner_.post(channel, sends, receives)});
    return ticket;
  }
  for (const SendMessage& send : sends) held_.push_back({ticket.id, channel, send, {}});
  for (const RecvMessage& receive : receives) held_.push_back({ticket.id, channel, {}, receive});
  std::shuffle(held_.begin(), held_.end(), random_);
  const std::size_t now = std::uniform_int_distribution<std::size_t>(0, held_.size())(random_);
  for (std::size_t i = 0; i < now; ++i) release(held_[i]);
  held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(now));
  return ticket;
}

void FaultyCommunicator::flush() {
  release_all();
  inner_.flush();
}

void FaultyCommunicator::wait(Ticket ticket) {
  misbehave();
  release_all();
  for (const Part& part : parts_) {
    if (part.ticket == ticket.id) inner_.wait(part.inner);
  }
  std::erase_if(parts_, [&](const Part& part) { return part.ticket == ticket.id; });
}

bool FaultyCommunicator::done(Ticket ticket) {
  release_all();
  return std::all_of(parts_.begin(), parts_.end(), [&](const Part& part) {
    return part.ticket != ticket.id || inner_.done(part.inner);
  });
}

void FaultyCommunicator::abort(const std::string& reason) noexcept {
  inner_.set_progress(progress());
  inner_.abort(reason);
}

std::int64_t FaultyCommunicator::bytes_sent(Channel channel) const {
  std::int64_t held = 0;
  for (const Held& message : held_) {
    if (message.send && message.channel == channel) {
      held += static_cast<std::int64_t>(message.send->bytes);
    }
  }
  return inner_.bytes_sent(channel) + held;
}

}  // namespace heliograph::test
