#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>

#include "comm/communicator.hpp"
#include "comm/rendezvous/introduction.hpp"
#include "comm/watch/rank_watch.hpp"
#include "heliograph/options.hpp"

namespace heliograph {

struct ProcessGroupOptions {
  double timeout_seconds = 120;  ///< Longest wait in which no message of the waiting rank moves.
  SilenceLimits silence;         ///< After which a rank counts as lost.
  /// Messages travel in pieces of at most so many bytes.
  std::size_t piece_bytes = std::size_t{4} << 20;
  /// Called by the group's constructor once the others are watched. As long as somebody holds the
  /// watch, the others take this process for alive.
  std::function<void(std::shared_ptr<RankWatch>)> on_watch;
};

/// This process among those of a run, each of which is one rank. Making one is collective, and from
/// then on others' ends are noticed; destroying one is not.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() {
    ProcessGroup* self = this;
    current_.compare_exchange_strong(self, nullptr);
  }
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// The group of which this process's runs are: the first that exists, or null.
  static ProcessGroup* current() noexcept { return current_; }

  int rank() const noexcept { return place_.rank; }
  int ranks() const noexcept { return place_.ranks; }
  int ranks_on_host() const noexcept { return place_.ranks_on_host; }
  /// The number of the device that is this rank's: how many ranks of this host have a lower number,
  /// unless what started the processes says it.
  int rank_on_host() const noexcept { return place_.rank_on_host; }
  /// This rank's share of the cores of its host, at least 1: cores that several ranks may use are
  /// divided among them.
  int cores() const noexcept { return place_.cores; }

  virtual TransportKind kind() const noexcept = 0;
  RankWatch& watch() noexcept { return *watch_; }
  /// Whether halo messages of this rank lie in its device's memory.
  virtual bool moves_device_memory() const noexcept { return false; }

  /// Collective: runs body(comm) on a thread of its own, moves its messages meanwhile, and returns
  /// when the bodies of all ranks have. If one fails, all throw: the one that caused it its own
  /// Error with the rank and its progress put in front, the others Error(peer_lost) with the same
  /// text. After a failure the group moves nothing any more.
  virtual void run(const std::function<void(Communicator&)>& body) = 0;

  /// Collective, at the end: waits until all ranks need nobody any more.
  /// Throws Error(peer_lost) if one is lost meanwhile.
  virtual void leave() = 0;

 protected:
  ProcessGroup() = default;
  /// Makes this the current group if there is none.
  void become_current() noexcept {
    ProcessGroup* none = nullptr;
    current_.compare_exchange_strong(none, this);
  }

  GroupPlace place_;
  std::shared_ptr<RankWatch> watch_;  ///< Made by the group's constructor.

 private:
  static inline std::atomic<ProcessGroup*> current_{nullptr};
};

}  // namespace heliograph
