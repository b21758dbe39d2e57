#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "comm/communicator.hpp"
#include "comm/rank_watch.hpp"

namespace heliograph {

struct MpiTransportOptions {
  double timeout_seconds = 120;  ///< Longest wait without a piece moving for the waiting rank.
  SilenceLimits silence;         ///< After which a rank counts as lost.
  std::size_t piece_bytes = std::size_t{4}
                            << 20;  ///< Messages travel in pieces of at most so many.
  /// Called by MpiGroup's constructor, in which MPI may still block, once others are watched. Who
  /// keeps the watch keeps this process among the living for the others.
  std::function<void(std::shared_ptr<RankWatch>)> on_watch;
};

/// Whether this build can run ranks as MPI processes.
bool mpi_built() noexcept;

/// This process among those that mpirun or srun started together, each of which is one rank.
/// One at a time in a process; collective where said. Initialises MPI if nobody has; MPI that was
/// initialised here is finalised by finalize_mpi, or when the process exits.
/// All MPI calls are made by the thread that calls these functions, so MPI_THREAD_FUNNELED is
/// enough, and a program that has called MPI_Init calls them on its main thread.
class MpiGroup {
 public:
  /// Collective: every process makes one. From then on others' ends are noticed.
  /// Throws Error: usage (MPI is not built, has been finalised, or wants another thread),
  /// peer_lost, resource.
  explicit MpiGroup(const MpiTransportOptions& options);
  /// Not collective.
  ~MpiGroup();
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  /// The one that exists, or null.
  static MpiGroup* current() noexcept;

  int rank() const noexcept;
  int ranks() const noexcept;
  int ranks_on_host() const noexcept;
  /// How many ranks of this host have a lower number: the device that is this rank's.
  int rank_on_host() const noexcept;
  /// This rank's share of the cores of its host, at least 1: cores that several ranks may use are
  /// divided among them.
  int cores() const noexcept;
  RankWatch& watch() noexcept;

  /// Collective: runs body(comm) on a thread of its own, moves its messages meanwhile, and returns
  /// when the bodies of all ranks have. If one fails, all throw: the one that caused it its own
  /// Error with the rank and its progress put in front, the others Error(peer_lost) with the same
  /// text. After a failure MPI is not called any more.
  void run(const std::function<void(Communicator&)>& body);

  /// Collective, at the end: waits until all ranks need nobody any more.
  /// Throws Error(peer_lost) if one is lost meanwhile.
  void leave();

 private:
  /// Meets the other ranks. What MPI may still write to lies in state_.
  void join();

  struct State;
  std::unique_ptr<State> state_;
};

/// Finalises MPI if it was initialised here and no rank was lost. Call after the group has left.
void finalize_mpi() noexcept;

/// The group of a single run: made, run, left.
void run_mpi_rank(const MpiTransportOptions& options,
                  const std::function<void(Communicator&)>& body);

}  // namespace heliograph
