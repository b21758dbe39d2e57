#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/rendezvous/introduction.hpp"
#include "comm/tickets.hpp"
#include "comm/watch/frame.hpp"

namespace heliograph {

/// The seconds without a sign of life after which a rank counts as lost, by what it was doing when
/// it last gave one.
struct SilenceLimits {
  double loading = 9, training = 9, saving = 9;

  double of(RunPhase phase) const;
};

/// Knows which other processes of the run are alive, and the one failure that ends all of them. A
/// thread of its own tells the others several times a second where this rank is. When a process
/// ends without a goodbye its sockets are closed, which the others notice within milliseconds; one
/// that is stopped or cut off falls silent. Thread-safe.
class RankWatch {
 public:
  /// Throws Error(usage) for limits out of range.
  RankWatch(int rank, int ranks, const SilenceLimits& limits);
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  /// Starts to watch the others over `sockets`, one to each of `all`; both are by rank.
  /// Throws Error(resource).
  void start(std::vector<Socket> sockets, std::span<const Introduction> all);

  void set_phase(RunPhase phase);
  /// From now on the others are told the progress of `comm`, and a failure ends the waits on
  /// `tickets`. Both may be null.
  void observe(const Communicator* comm, Tickets* tickets);

  /// Records that this rank failed, and tells the others; the first failure that is told counts.
  void fail(Progress progress, ErrorCode code, const std::string& reason) noexcept;
  /// The same for a failure that an exception causes while it passes. The others are told the
  /// exception if `fail_by_exception` follows within 0.2 s, and otherwise this reason.
  void fail_while_unwinding(Progress progress, ErrorCode code, const std::string& reason) noexcept;
  /// Records that an exception ended this rank's work, and tells the others. This replaces an
  /// earlier failure, since the rank's own error is more precise, unless the exception only repeats
  /// the message of that failure.
  void fail_by_exception(Progress progress, ErrorCode code, const std::string& what) noexcept;

  bool failed() const noexcept { return failed_; }
  /// Throws the failure as Error(peer_lost), as its cause may be elsewhere; returns if there is
  /// none.
  void throw_if_failed() const;
  /// The code with which the process ends: that of the failure, whichever rank it is of, so that a
  /// launcher finds the same code whichever process it sees end first.
  ErrorCode failure_code() const;
  /// The rank, where it was, and what happened.
  std::string failure_text() const;
  /// Throws the failure, as Error(peer_lost) if it is another rank's; returns if there is none.
  void rethrow() const;
  /// True as soon as a failure is known, false after `seconds` without one.
  bool wait_for_failure(double seconds) const;

  /// Tells the other ranks that this rank no longer needs them, and waits until all ranks have said
  /// the same. Throws Error(peer_lost) if a rank is lost before that.
  void say_goodbye();

  /// Returns whether this rank must report the failure because no other rank will. Call it after a
  /// failure, before the process ends. Waits for up to a second for messages of the other ranks. If
  /// the cause was an exception on another rank, that rank reports it and ends first.
  bool must_report();
  /// Whether the failure is the loss of a rank, so that every survivor reports it.
  bool lost() const;
  /// Whether this rank is the lowest but the one that failed.
  bool lowest_survivor() const;
  /// Waits until all survivors have reported a loss, but at most for `seconds`. Call it after this
  /// process has reported the loss; the process must then end. Without it the first survivors would
  /// end too early: mpirun kills the remaining processes once two more have ended, even if they
  /// have not reported the loss yet.
  void leave_together(double seconds);
  /// Delays the end of this process, so that all survivors set their exit codes before the launcher
  /// sees the first of them end and kills the rest. Call it right before an exit with a code other
  /// than 0. It opens inotify descriptors that only the kernel closes: after it has set the exit
  /// code, before the launcher sees the end, and in some milliseconds for every two of them. If the
  /// user may open only a few, the delay is shorter and the launcher may kill first.
  void delay_exit() const;

 private:
  struct Peer {
    Socket socket;
    WatchFrameReader reader;
    std::string host;
    double heard_at = 0;
    RunPhase phase = RunPhase::loading;
    Progress progress;
    bool said_bye = false;
    bool has_ended = false;           ///< Its failure or its end is known.
    std::optional<std::string> said;  ///< The failure that it reports itself.
    /// How far it is in leaving together: alive (not at all), ready or leaving.
    WatchFrame::Kind leaves = WatchFrame::Kind::alive;
  };
  struct Failure {
    int rank;
    ErrorCode code;
    std::string message;
    bool lost;  ///< The rank is lost, so that only survivors can report it.
  };

  /// A failure of this rank, recorded at the time `since`, that the others have not been told.
  struct Untold {
    Progress progress;
    ErrorCode code;
    std::string reason;
    double since;
  };

  void watch();
  void read(int rank, Peer& peer);
  void handle(int rank, Peer& peer, const WatchFrame& frame);
  void lose(int rank, Peer& peer, const std::string& how) noexcept;
  void describe_loss(int rank, const Peer& peer, const std::string& how);
  void record_loss(int rank, const std::string& text);
  void look_for_silence(double now);
  void tell(const WatchFrame& frame) noexcept;
  void record(Failure failure, bool replace) noexcept;
  void record_own(Progress progress, ErrorCode code, const std::string& what);
  void announce(Progress progress, ErrorCode code, const std::string& what) noexcept;
  void tell_untold() noexcept;
  void spread_failure() noexcept;
  WatchFrame own_frame(WatchFrame::Kind kind) const;
  std::string message_locked() const;
  void wake() noexcept;

  const int rank_;
  const SilenceLimits limits_;
  double beat_seconds_;
  int ranks_on_host_ = 1;
  std::thread thread_;
  Descriptor alarm_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Peer> peers_;
  const Communicator* observed_ = nullptr;
  Tickets* tickets_ = nullptr;
  RunPhase phase_ = RunPhase::loading;
  std::optional<Failure> failure_;
  std::optional<Untold> untold_;
  bool said_bye_ = false;
  bool stopped_ = false;
  std::atomic<bool> failed_{false};
};

}  // namespace heliograph
