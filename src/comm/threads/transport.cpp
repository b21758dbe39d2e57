#include "comm/threads/transport.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "comm/batch.hpp"
#include "comm/threads/world.hpp"
#include "core/thread.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(ThreadWorld& world, int rank) : world_(world), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return world_.ranks(); }

  Ticket post(Channel channel, std::span<const SendMessage> sends,
              std::span<const RecvMessage> receives) override {
    world_.throw_if_failed();
    check_batch(*this, sends, receives);
    const int messages = count_messages(sends, receives);
    if (messages == 0) return {};

    const Ticket ticket = world_.tickets(rank_).open(messages);
    for (const SendMessage& send : sends) {
      if (send.bytes == 0) continue;
      bytes_sent_[static_cast<std::size_t>(channel)] += static_cast<std::int64_t>(send.bytes);
      post_end(rank_, send.peer, channel,
               {send.data, nullptr, send.bytes, ticket.id, send.on_device});
    }
    for (const RecvMessage& receive : receives) {
      if (receive.bytes == 0) continue;
      post_end(receive.peer, rank_, channel,
               {nullptr, receive.data, receive.bytes, ticket.id, receive.on_device});
    }
    return ticket;
  }

  void expect_messages(std::size_t messages) override {
    for (int peer = 0; peer < size(); ++peer) {
      world_.outbox(rank_).expect(peer, Channel::halo, messages);
      world_.outbox(peer).expect(rank_, Channel::halo, messages);
    }
  }

  void wait(Ticket ticket) override {
    Tickets& mine = world_.tickets(rank_);
    check_issued(ticket);
    while (true) {
      const std::uint64_t seen = mine.interruptions();
      world_.throw_if_failed();
      if (world_.any_ended()) fail_if_orphaned(ticket);
      switch (mine.wait(ticket, seen, world_.timeout_seconds())) {
        case Tickets::WaitResult::done:
          return;
        case Tickets::WaitResult::interrupted:
          break;
        case Tickets::WaitResult::timeout:
          fail_if_stalled(ticket);
      }
    }
  }

  bool moves_device_memory(Channel) const override { return world_.moves_device_memory(); }

  bool done(Ticket ticket) override {
    check_issued(ticket);
    return world_.failed() || world_.tickets(rank_).done(ticket);
  }

  void throw_if_failed() override { world_.throw_if_failed(); }

  void abort(const std::string& reason) noexcept override {
    world_.fail(rank_, progress(), ErrorCode::peer_lost, reason);
  }

  std::int64_t bytes_sent(Channel channel) const override {
    return bytes_sent_[static_cast<std::size_t>(channel)];
  }

 private:
  void check_issued(Ticket ticket) {
    if (!world_.tickets(rank_).issued(ticket)) refuse_ticket(*this, ticket);
  }

  /// Posts this rank's end of a message from `from` to `to`.
  void post_end(int from, int to, Channel channel, const Outbox::Post& mine) {
    const auto mismatch = world_.outbox(from).post(to, channel, mine);
    if (mismatch) fail(describe_mismatch(from, to, channel, mismatch->sent, mismatch->expected));
  }

  [[noreturn]] void fail(const std::string& reason) {
    world_.fail(rank_, progress(), ErrorCode::peer_lost, reason);
    world_.throw_if_failed();
    throw Error(ErrorCode::peer_lost, reason);
  }

  /// Calls visit(state, end) for every message of the batch that is not done.
  template <class Visit>
  void for_each_unfinished(Ticket ticket, Visit visit) {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank_) continue;
      for (int c = 0; c < kChannels; ++c) {
        const auto channel = static_cast<Channel>(c);
        for (const bool sending : {false, true}) {
          const Outbox& outbox = world_.outbox(sending ? rank_ : peer);
          const auto state = outbox.state(sending ? peer : rank_, channel, sending, ticket.id);
          if (state != Outbox::State::not_here) visit(state, MessageEnd{peer, channel, sending});
        }
      }
    }
  }

  void fail_if_orphaned(Ticket ticket) {
    std::vector<bool> ended(static_cast<std::size_t>(size()));
    // Read before the messages: a rank that has ended posts no more.
    for (int peer = 0; peer < size(); ++peer) {
      ended[static_cast<std::size_t>(peer)] = world_.ended(peer);
    }
    std::string orphan;
    for_each_unfinished(ticket, [&](Outbox::State state, const MessageEnd& end) {
      if (state == Outbox::State::unmatched && ended[static_cast<std::size_t>(end.peer)]) {
        orphan = describe_end(end);
      }
    });
    if (!orphan.empty()) fail(fmt::format("waits for {}, but that rank has ended", orphan));
  }

  void fail_if_stalled(Ticket ticket) {
    const bool too_late = world_.outbox(rank_).latency_seconds() >= world_.timeout_seconds();
    bool moving = false;
    std::optional<MessageEnd> stalled;
    for_each_unfinished(ticket, [&](Outbox::State state, const MessageEnd& end) {
      if (state == Outbox::State::unmatched || (state == Outbox::State::delayed && too_late)) {
        if (!stalled) stalled = end;
      } else {
        moving = true;
      }
    });
    if (moving || !stalled) return;
    fail(describe_stall(world_.timeout_seconds(), *stalled));
  }

  ThreadWorld& world_;
  const int rank_;
  std::array<std::int64_t, kChannels> bytes_sent_{};
};

void run_body(ThreadWorld& world, int rank, const std::function<void(Communicator&)>& body) {
  ThreadCommunicator comm(world, rank);
  try {
    body(comm);
    if (!world.failed() && !world.tickets(rank).all_done()) {
      world.fail(rank, comm.progress(), ErrorCode::usage, kEndedInFlight);
    }
    world.set_ended(rank);
  } catch (...) {
    const RankFailure failure = current_failure();
    world.fail_by_exception(rank, comm.progress(), failure.code, failure.text);
  }
}

void check_options(int ranks, const ThreadTransportOptions& options) {
  if (ranks < 1) {
    throw_error(ErrorCode::usage, "the number of ranks is {}; it must be at least 1", ranks);
  }
  const auto shape = [](double value, const char* name) {
    if (!(value >= 0) || !std::isfinite(value)) {
      throw_error(ErrorCode::usage, "{} is {:f}; it must be a finite number, 0 or more", name,
                  value);
    }
  };
  shape(options.link.gbps, "the link rate in Gbit/s");
  shape(options.link.latency_us, "the link latency in microseconds");
  if (!(options.timeout_seconds > 0)) {
    throw_error(ErrorCode::usage, "the timeout is {:f} s; it must be more than 0",
                options.timeout_seconds);
  }
}

}  // namespace

void run_ranks(int ranks, const ThreadTransportOptions& options,
               const std::function<void(Communicator&)>& body) {
  check_options(ranks, options);
  ThreadWorld world(ranks, options);
  world.start();

  {
    std::vector<Thread> threads;  // joins when it goes
    for (int rank = 0; rank < ranks; ++rank) {
      try {
        threads.emplace_back(fmt::format("rank {}", rank),
                             [&, rank] { run_body(world, rank, body); });
      } catch (const Error& error) {
        world.fail(rank, {}, error.code(), error.what());
        break;
      }
    }
  }
  world.rethrow_cause();
}

}  // namespace heliograph
