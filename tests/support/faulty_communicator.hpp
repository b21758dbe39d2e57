#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "comm/communicator.hpp"

namespace heliograph::test {

/// What goes wrong; nothing by default.
struct Faults {
  std::uint64_t seed = 1;  ///< Each rank mixes its own number into it.
  double delay_us = 0;     ///< Every call first sleeps for up to this, uniformly.
  bool reorder = false;    ///< Messages of a batch go out one by one in random order, some of
                           ///< them only at a later call; order within a peer and channel is kept.
  int fail_on_call = 0;    ///< The n-th post or wait (from 1) throws instead; 0: none does.
  ErrorCode code = ErrorCode::peer_lost;
};

/// Delays, reorders or fails the calls of another communicator, as a Communicator may.
class FaultyCommunicator final : public Communicator {
 public:
  FaultyCommunicator(Communicator& inner, const Faults& faults);

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  Ticket post(Channel channel, std::span<const SendMessage> sends,
              std::span<const RecvMessage> receives) override;
  void wait(Ticket ticket) override;
  void flush() override;
  bool sends_in_groups() const override { return inner_.sends_in_groups(); }
  bool orders_on_device(Channel channel) const override { return inner_.orders_on_device(channel); }
  void expect_messages(std::size_t messages) override { inner_.expect_messages(messages); }
  void flush_after(Device& device) override { inner_.flush_after(device); }
  void wait_on(Device& device, Ticket ticket) override { inner_.wait_on(device, ticket); }
  bool done(Ticket ticket) override;
  bool moves_device_memory(Channel channel) const override {
    return inner_.moves_device_memory(channel);
  }
  void throw_if_failed() override { inner_.throw_if_failed(); }
  void abort(const std::string& reason) noexcept override;
  std::int64_t bytes_sent(Channel channel) const override;

  /// The number of calls of post and wait so far.
  int calls() const { return calls_; }
  /// The number of messages that were posted to others so far.
  std::int64_t messages_sent(Channel channel) const {
    const auto found = messages_sent_.find(channel);
    return found == messages_sent_.end() ? 0 : found->second;
  }

 private:
  struct Held {
    std::uint64_t ticket;
    Channel channel;
    std::optional<SendMessage> send;
    std::optional<RecvMessage> receive;
  };
  struct Part {
    std::uint64_t ticket;
    Ticket inner;
  };

  void misbehave();
  void release(const Held& message);
  void release_all();

  Communicator& inner_;
  Faults faults_;
  std::mt19937_64 random_;
  int calls_ = 0;
  std::map<Channel, std::int64_t> messages_sent_;
  std::uint64_t last_ticket_ = 0;
  std::vector<Held> held_;
  std::vector<Part> parts_;
};

}  // namespace heliograph::test
