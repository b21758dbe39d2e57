#pragma once

#include <array>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "comm/batch.hpp"
#include "comm/communicator.hpp"
#include "comm/processes/message_queues.hpp"
#include "comm/tickets.hpp"
#include "comm/watch/rank_watch.hpp"
#include "core/function_ref.hpp"

namespace heliograph {

/// The communicator of a rank that is a process: keeps the books of what was posted, and leaves
/// the moving of bytes to a communication thread, which takes turns:
///
///   while (comm.begin_turn()) { start and finish pieces; comm.end_turn(); comm.rest(...); }
///
/// Only inside a turn may that thread touch buffers, so a failure ends with the turn.
class ProcessCommunicator final : public Communicator {
 public:
  /// `watch` must outlive it. `timeout`: seconds, the longest wait without a piece coming or going.
  ProcessCommunicator(int rank, int ranks, double timeout, std::size_t piece_bytes,
                      RankWatch& watch);
  ~ProcessCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return ranks_; }
  Ticket post(Channel channel, std::span<const SendMessage> sends,
              std::span<const RecvMessage> receives) override;
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

  /// Before `run`: the transport reaches halo messages in memory of the rank's device that comes
  /// from `memory`, which must outlive the run; null: it does not.
  void set_halo_memory(MemorySource* memory) { halo_memory_ = memory; }

  /// Runs `body` as the rank; afterwards the communication thread's turns end. Never throws: what
  /// the body threw is the watch's failure.
  void run(const std::function<void(Communicator&)>& body) noexcept;

  // For the communication thread.

  /// False when there is no turn any more: the run has failed, or the body has ended.
  bool begin_turn();
  void end_turn();
  std::optional<MessageQueues::Piece> start();
  void finish(const MessageQueues::Piece& piece);
  /// `received` bytes, or a message of `received` bytes, came for a piece of another size.
  void refuse(const MessageQueues::Piece& piece, std::size_t received);
  /// Sleeps for so many seconds, less if something is posted or over meanwhile.
  void rest(double seconds);
  /// For a thread that sleeps in a call of its own instead: from here to `wake_up`, `alarm` is
  /// called, on any thread, once something is posted or over. False: something is already.
  bool fall_asleep(const std::function<void()>& alarm);
  void wake_up();
  /// Whether the rank waits for its messages, with nothing to compute.
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
  bool news_ = false;  ///< Something was posted since the last turn began.
  bool ended_ = false;
  const std::function<void()>* alarm_ = nullptr;  ///< Where the communication thread sleeps.
};

/// The transport itself has failed: often since a rank is lost, which the watch then names.
struct TransportFailure : Error {
  using Error::Error;
};

/// A transport may see a loss before the watch does, which then names it, in so many seconds.
inline constexpr double kLossSeconds = 1;

/// Runs body(comm) on a thread of its own and `move`, the communication thread's turns, on this
/// one. Throws the failure of `watch`, which that of either becomes.
void run_process_rank(ProcessCommunicator& comm, RankWatch& watch,
                      const std::function<void(Communicator&)>& body, FunctionRef<void()> move);

}  // namespace heliograph
