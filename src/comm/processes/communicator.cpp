#include "comm/processes/communicator.hpp"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "comm/batch.hpp"
#include "core/thread.hpp"

namespace heliograph {

ProcessCommunicator::ProcessCommunicator(int rank, int ranks, double timeout,
                                         std::size_t piece_bytes, RankWatch& watch)
    : rank_(rank), ranks_(ranks), timeout_(timeout), watch_(watch), queues_(ranks, piece_bytes) {
  watch_.observe(this, &tickets_);
}

ProcessCommunicator::~ProcessCommunicator() { watch_.observe(nullptr, nullptr); }

Ticket ProcessCommunicator::post(Channel channel, std::span<const SendMessage> sends,
                                 std::span<const RecvMessage> receives) {
  throw_if_failed();
  check_batch(*this, sends, receives);
  const int messages = count_messages(sends, receives);
  if (messages == 0) return {};

  const Ticket ticket = tickets_.open(messages);
  {
    std::unique_lock lock(mutex_);
    for (const RecvMessage& receive : receives) {
      if (receive.bytes == 0) continue;
      queues_.push({receive.peer, channel, false}, receive.data, receive.bytes, ticket.id);
    }
    for (const SendMessage& send : sends) {
      if (send.bytes == 0) continue;
      bytes_sent_[static_cast<std::size_t>(channel)] += static_cast<std::int64_t>(send.bytes);
      queues_.push({send.peer, channel, true}, const_cast<std::byte*>(send.data), send.bytes,
                   ticket.id);
    }
    notify(std::move(lock));
  }
  return ticket;
}

void ProcessCommunicator::expect_messages(std::size_t messages) {
  const std::lock_guard lock(mutex_);
  queues_.expect(Channel::halo, messages);
}

void ProcessCommunicator::wait(Ticket ticket) {
  if (!tickets_.issued(ticket)) refuse_ticket(*this, ticket);
  if (!watch_.failed() && tickets_.done(ticket)) return;
  {
    std::unique_lock lock(mutex_);
    waiting_ = true;
    notify(std::move(lock));
  }
  while (true) {
    const std::uint64_t seen = tickets_.interruptions();
    if (watch_.failed()) {
      waiting_ = false;
      throw_if_failed();
    }
    const auto result = tickets_.wait(ticket, seen, timeout_);
    if (result == Tickets::WaitResult::interrupted) continue;
    waiting_ = false;
    if (result == Tickets::WaitResult::done) return;
    std::optional<MessageEnd> end;
    {
      const std::lock_guard lock(mutex_);
      end = queues_.unfinished(ticket.id);
    }
    if (!end) return;  // The last piece has come since the timeout.
    fail(describe_stall(timeout_, *end));
  }
}

bool ProcessCommunicator::done(Ticket ticket) {
  if (!tickets_.issued(ticket)) refuse_ticket(*this, ticket);
  return watch_.failed() || tickets_.done(ticket);
}

void ProcessCommunicator::abort(const std::string& reason) noexcept {
  if (std::uncaught_exceptions() > 0) {
    watch_.fail_while_unwinding(progress(), ErrorCode::peer_lost, reason);
  } else {
    watch_.fail(progress(), ErrorCode::peer_lost, reason);
  }
  quiesce();
}

std::int64_t ProcessCommunicator::bytes_sent(Channel channel) const {
  return bytes_sent_[static_cast<std::size_t>(channel)];
}

void ProcessCommunicator::run(const std::function<void(Communicator&)>& body) noexcept {
  try {
    body(*this);
    if (!watch_.failed() && !tickets_.all_done()) {
      watch_.fail(progress(), ErrorCode::usage, kEndedInFlight);
    }
  } catch (...) {
    const RankFailure failure = current_failure();
    watch_.fail_by_exception(progress(), failure.code, failure.text);
  }
  quiesce();
  std::unique_lock lock(mutex_);
  ended_ = true;
  notify(std::move(lock));
}

bool ProcessCommunicator::begin_turn() {
  const std::lock_guard lock(mutex_);
  if (ended_ || watch_.failed()) return false;
  in_turn_ = true;
  news_ = false;
  return true;
}

void ProcessCommunicator::end_turn() {
  {
    const std::lock_guard lock(mutex_);
    in_turn_ = false;
  }
  turn_over_.notify_all();
}

std::optional<MessageQueues::Piece> ProcessCommunicator::start() {
  const std::lock_guard lock(mutex_);
  return queues_.start();
}

void ProcessCommunicator::finish(const MessageQueues::Piece& piece) {
  std::optional<std::uint64_t> ticket;
  {
    const std::lock_guard lock(mutex_);
    ticket = queues_.finish(piece);
  }
  if (ticket) {
    tickets_.complete(*ticket);
  } else {
    tickets_.moved();
  }
}

void ProcessCommunicator::refuse(const MessageQueues::Piece& piece, std::size_t received) {
  watch_.fail(
      progress(), ErrorCode::peer_lost,
      describe_mismatch(piece.end.peer, rank_, piece.end.channel, received, piece.message_bytes));
}

void ProcessCommunicator::rest(double seconds) {
  std::unique_lock lock(mutex_);
  posted_.wait_for(lock, std::chrono::duration<double>(seconds),
                   [this] { return news_ || ended_; });
}

/// Wakes the communication thread after something was posted or the body has ended.
void ProcessCommunicator::notify(std::unique_lock<std::mutex> lock) {
  news_ = true;
  if (alarm_ != nullptr) (*std::exchange(alarm_, nullptr))();
  lock.unlock();
  posted_.notify_one();
}

bool ProcessCommunicator::fall_asleep(const std::function<void()>& alarm) {
  const std::lock_guard lock(mutex_);
  if (news_ || ended_) return false;
  alarm_ = &alarm;
  return true;
}

void ProcessCommunicator::wake_up() {
  const std::lock_guard lock(mutex_);
  alarm_ = nullptr;
}

void ProcessCommunicator::quiesce() {
  std::unique_lock lock(mutex_);
  turn_over_.wait(lock, [this] { return !in_turn_; });
}

void ProcessCommunicator::throw_if_failed() {
  if (!watch_.failed()) return;
  quiesce();
  watch_.throw_if_failed();
}

void ProcessCommunicator::fail(const std::string& reason) {
  watch_.fail(progress(), ErrorCode::peer_lost, reason);
  throw_if_failed();
  throw Error(ErrorCode::peer_lost, reason);
}

void run_process_rank(ProcessCommunicator& comm, RankWatch& watch,
                      const std::function<void(Communicator&)>& body, FunctionRef<void()> move) {
  {
    const Thread thread(fmt::format("rank {}", comm.rank()), [&] { comm.run(body); });
    try {
      move();
    } catch (const TransportFailure& failure) {
      if (!watch.wait_for_failure(kLossSeconds)) {
        watch.fail(comm.progress(), failure.code(), failure.what());
      }
    } catch (...) {
      const RankFailure failure = current_failure();
      watch.fail(comm.progress(), failure.code, failure.text);
    }
  }
  watch.rethrow();
}

}  // namespace heliograph
