#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.hpp"
#include "comm/rendezvous/introduction.hpp"
#include "comm/watch/rank_watch.hpp"
#include "heliograph/options.hpp"

namespace heliograph {

struct ProcessGroupOptions {
  double timeout_seconds = 120;  ///< Longest wait while no message of the waiting rank moves.
  SilenceLimits silence;         ///< The silence after which a rank counts as lost.
  /// The largest size of the pieces in which messages are sent.
  std::size_t piece_bytes = std::size_t{4} << 20;
  /// Called by the group's constructor when the watch has started. While anyone holds the watch,
  /// the other ranks see this process as alive.
  std::function<void(std::shared_ptr<RankWatch>)> on_watch;
};

/// The processes of a run, each of which is one rank, as this process sees them. Construction is
/// collective and starts the detection of lost ranks. Destruction is not collective.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() {
    ProcessGroup* self = this;
    current_.compare_exchange_strong(self, nullptr);
  }
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// The group in which this process runs: the first one that was made, until it is destroyed. Null
  /// if there is none.
  static ProcessGroup* current() noexcept { return current_; }

  int rank() const noexcept { return place_.rank; }
  int ranks() const noexcept { return place_.ranks; }
  int ranks_on_host() const noexcept { return place_.ranks_on_host; }
  /// The number of this rank's device: as the launcher sets it, or else the number of lower ranks
  /// on this host.
  int rank_on_host() const noexcept { return place_.rank_on_host; }
  /// This rank's share of the cores of its host, at least 1: cores that several ranks may use are
  /// divided among them.
  int cores() const noexcept { return place_.cores; }

  virtual TransportKind kind() const noexcept = 0;
  RankWatch& watch() noexcept { return *watch_; }
  /// What a user should know about how the processes have met; empty if there is nothing.
  const std::string& warning() const noexcept { return warning_; }
  /// Whether halo messages of this rank lie in its device's memory.
  virtual bool moves_device_memory() const noexcept { return false; }

  /// Runs body(comm) on a thread of its own, moves its messages meanwhile, and returns when the
  /// bodies of all ranks have returned. Collective. If one rank fails, all ranks throw: the one
  /// that caused the failure throws its own Error with the rank and its progress put in front, and
  /// the others throw Error(peer_lost) with the same text. After a failure the group moves no more
  /// messages.
  virtual void run(const std::function<void(Communicator&)>& body) = 0;

  /// Waits until no rank needs another one. Collective, at the end of a run.
  /// Throws Error(peer_lost) if a rank is lost before that.
  virtual void leave() = 0;

 protected:
  ProcessGroup() = default;
  /// Makes this the current group if there is none.
  void become_current() noexcept {
    ProcessGroup* none = nullptr;
    current_.compare_exchange_strong(none, this);
  }

  GroupPlace place_;
  std::string warning_;
  std::shared_ptr<RankWatch> watch_;  ///< Made by the group's constructor.

 private:
  static inline std::atomic<ProcessGroup*> current_{nullptr};
};

}  // namespace heliograph
