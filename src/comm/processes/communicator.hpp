#pragma once

#include <array>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "comm/communicator.hpp"
#include "comm/processes/message_queues.hpp"
#include "comm/tickets.hpp"
#include "comm/watch/rank_watch.hpp"
#include "core/function_ref.hpp"

namespace heliograph {

/// The communicator of a rank that is a process. It keeps track of what was posted; a communication
/// thread moves the bytes, in turns:
///
///   while (comm.begin_turn()) { start and finish pieces; comm.end_turn(); comm.rest(...); }
///
/// That thread touches buffers only inside a turn, so after a failure it touches none once its turn
/// has ended.
class ProcessCommunicator final : public Communicator {
 public:
  /// `watch` must outlive the communicator. `timeout` is the longest wait, in seconds, in which no
  /// piece moves.
  ProcessCommunicator(int rank, int ranks, double timeout, std::size_t piece_bytes,
                      RankWatch& watch);
  ~ProcessCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return ranks_; }
  Ticket post(Channel channel, std::span<const SendMessage> sends,
              std::span<const RecvMessage> receives) override;
  void expect_messages(std::size_t messages) override;
  void wait(Ticket ticket) override;
  bool done(Ticket ticket) override;
  void throw_if_failed() override;
  void abort(const std::string& reason) noexcept override;
  std::int64_t bytes_sent(Channel channel) const override;
  bool moves_device_memory(Channel channel) const override {
    return channel == Channel::halo && halo_memory_ != nullptr;
  }
  MemorySource* message_memory(Channel channel) override {
    return channel == Channel::halo ? halo_memory_ : nullptr;
  }

  /// Sets the source of device memory in which the transport accesses halo messages; null if it
  /// accesses none. Call it before `run`. `memory` must outlive the run.
  void set_halo_memory(MemorySource* memory) { halo_memory_ = memory; }

  /// Runs `body` as the rank. Afterwards the communication thread's turns end. Never throws: an
  /// exception of the body is recorded as a failure in the watch.
  void run(const std::function<void(Communicator&)>& body) noexcept;

  // The functions below are for the communication thread.

  /// Begins a turn. Returns false if there are no more turns, because the run has failed or the
  /// body has ended.
  bool begin_turn();
  void end_turn();
  std::optional<MessageQueues::Piece> start();
  void finish(const MessageQueues::Piece& piece);
  /// Fails the run because a message of `received` bytes has come for `piece`, whose message has
  /// another size.
  void refuse(const MessageQueues::Piece& piece, std::size_t received);
  /// Sleeps for `seconds`, or until something is posted or the body ends.
  void rest(double seconds);
  /// For a communication thread that blocks in a call such as poll(). When something is posted or
  /// the body ends, some thread calls `alarm`, once, unless `wake_up` comes first. Returns false if
  /// that has happened already.
  bool fall_asleep(const std::function<void()>& alarm);
  void wake_up();
  /// Whether the rank is inside `wait`.
  bool waited_for() const { return waiting_; }

 private:
  void quiesce();
  void notify(std::unique_lock<std::mutex> lock);
  [[noreturn]] void fail(const std::string& reason);

  const int rank_;
  const int ranks_;
  const double timeout_;
  RankWatch& watch_;
  Tickets tickets_;
  MemorySource* halo_memory_ = nullptr;
  std::array<std::int64_t, kChannels> bytes_sent_{};
  std::atomic<bool> waiting_{false};

  std::mutex mutex_;
  std::condition_variable posted_;
  std::condition_variable turn_over_;
  MessageQueues queues_;
  bool in_turn_ = false;
  bool news_ = false;  ///< Whether something was posted after the last turn began.
  bool ended_ = false;
  const std::function<void()>* alarm_ = nullptr;  ///< Null unless that thread sleeps.
};

/// A failure of the transport. Its cause is often a lost rank, which the watch then names.
struct TransportFailure : Error {
  using Error::Error;
};

/// How long a transport that fails waits for the watch to name a lost rank, in seconds.
inline constexpr double kLossSeconds = 1;

/// Runs body(comm) on a new thread and `move`, the communication thread's loop, on this one.
/// Records a failure of either in `watch`, and throws it.
void run_process_rank(ProcessCommunicator& comm, RankWatch& watch,
                      const std::function<void(Communicator&)>& body, FunctionRef<void()> move);

}  // namespace heliograph
