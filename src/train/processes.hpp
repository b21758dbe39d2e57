#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "core/function_ref.hpp"
#include "heliograph/error.hpp"
#include "heliograph/options.hpp"

namespace heliograph {

class ProcessGroup;
class RankWatch;

/// Rank of this process among those that it has joined; 0 if it is alone.
int rank_of_process();
/// By which transport it has joined them: mpi or tcp; threads if it is alone.
TransportKind kind_of_processes();

/// Throws Error(usage) unless `parts` are as many as `processes`.
void require_parts(int parts, int processes);

/// This process among those of a run: it joins those that mpirun, srun or torchrun started with it
/// where `transport` asks for that by name or leaves the choice; else it is alone.
class Processes {
 public:
  /// Throws Error(usage): no MPI in this build, variables of torchrun that are missing or no
  /// numbers, or several processes that would each train the whole by threads.
  explicit Processes(const TransportOptions& transport);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Collective; once. Nothing where this process is alone. `check` is called now and then while
  /// it waits, where it joins by TCP, and may throw. Throws Error: usage (torchrun has started
  /// several, and MPI one), peer_lost, resource; what `check` throws.
  void join(const std::function<void()>& check = {});
  /// Whether `join` has others to join.
  bool joins_others() const { return joins_by_ != TransportKind::threads; }

  bool joined() const { return group_ != nullptr; }
  /// Whether halo messages of this rank are handed over in memory of its device.
  bool moves_device_memory() const;
  int rank() const;
  int count() const;
  /// The one that prints, and writes files.
  bool is_root() const { return rank() == 0; }

  // What is known of the others is known, to every thread, from the middle of `join` on.

  /// True as soon as it is known that a rank was lost or has failed, false after `seconds`.
  bool wait_for_failure(double seconds) const;

  /// The exception that is being handled, or `reason`, ends this process: tells the others.
  void fail() noexcept;
  void fail(const std::string& reason) noexcept;

  /// After a failure is known, before this process ends: whether it is the one to report it.
  /// Waits for a fraction of a second for what the others say.
  bool reports();
  /// The code by which this process ends after it, and what is known of it.
  ErrorCode failure_code() const;
  std::string failure_text() const;
  /// Whether the failure is the loss of a rank.
  bool lost() const;
  /// After a loss that this process has reported, before it ends (RankWatch::leave_together).
  void leave_together();
  /// Before this process ends otherwise than with 0 (RankWatch::hold_up_the_end).
  void hold_up_the_end() const;

  /// Collective, at the end of a run that went well: waits until all have come.
  void leave();

 private:
  std::shared_ptr<RankWatch> watch() const;
  /// What the watch answers to `question`, one of its members, or `alone` where there is none.
  template <class Question, class Answer>
  Answer ask(Question question, Answer alone) const;

  const TransportOptions transport_;
  const TransportKind joins_by_;  ///< mpi, tcp, or threads: it is alone.
  mutable std::mutex mutex_;
  std::shared_ptr<RankWatch> watch_;
  std::unique_ptr<ProcessGroup> group_;
};

/// Runs `work` as a member of the processes that `transport` asks for by name, unless this process
/// is one of them already; an exception of `work` ends the others too.
void join_processes(const TransportOptions& transport, FunctionRef<void()> work);

/// Where MPI was initialised here: finalises it now and not when the process exits. After a failure
/// it does nothing, as MPI would wait for those who are lost.
void end_mpi() noexcept;

}  // namespace heliograph
