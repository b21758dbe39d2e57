#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/function_ref.hpp"
#include "heliograph/error.hpp"
#include "heliograph/log.hpp"
#include "heliograph/options.hpp"

namespace heliograph {

class ProcessGroup;
class RankWatch;

/// Rank of this process among those that it has joined; 0 if it is alone.
int rank_of_process();
/// The transport by which this process has joined others, mpi or tcp; threads if it is alone.
TransportKind kind_of_processes();
/// What a user should know about how this process has met the others; empty if there is nothing.
std::string warning_of_processes();

/// The transport by which `Processes` joins others, mpi or tcp; threads if this process is alone.
/// Throws as Processes does.
TransportKind choose_transport(const TransportOptions& transport);

/// Throws Error(usage) unless `parts` equals `processes`.
void require_parts(int parts, int processes);

/// How many processes will wait for each other over TCP, by the environment; nothing if this
/// process does not meet others over TCP. Throws as Processes does.
std::optional<int> awaited_processes(const TransportOptions& transport);

/// This process among the processes of a run. It joins those that mpirun, srun or torchrun started
/// with it if `transport` says so or leaves the choice; otherwise it is alone.
class Processes {
 public:
  /// Throws Error(usage): this build has no MPI; torchrun's variables are missing or are not
  /// numbers; or several processes were started and each would train the whole graph by threads.
  explicit Processes(const TransportOptions& transport);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Joins the other processes, if there are any. Collective; called once. While it waits for
  /// others over TCP it repeatedly calls `check`, which may throw; `log` is told for whom it waits
  /// if that takes long. Throws Error: usage (torchrun started several processes, but MPI one),
  /// peer_lost, resource; and what `check` throws.
  void join(const std::function<void()>& check = {}, const LogCallback& log = {});
  /// Whether `join` has others to join.
  bool joins_others() const { return joins_by_ != TransportKind::threads; }

  bool joined() const { return group_ != nullptr; }
  /// Whether the transport reads and writes halo messages in memory of this rank's device.
  bool moves_device_memory() const;
  int rank() const;
  int count() const;
  /// Whether this process prints and writes files.
  bool is_root() const { return rank() == 0; }

  // The functions from here to `delay_exit` may be called by every thread, also while another
  // thread is in `join`.

  /// Waits for at most `seconds`. Returns true as soon as a rank is known to be lost or to have
  /// failed.
  bool wait_for_failure(double seconds) const;

  /// Tells the other processes that this one ends because of the exception that is being handled,
  /// or because of `reason`.
  void fail() noexcept;
  void fail(ErrorCode code, const std::string& reason) noexcept;

  /// Whether this process is the one to report a failure. Called when a failure is known and before
  /// this process ends. Waits for a fraction of a second for messages of the others.
  bool reports();
  /// The exit code of this process after that failure, and the message that describes it.
  ErrorCode failure_code() const;
  /// Whether the processes end because one of them was told to end at once.
  bool interrupted() const;
  std::string failure_text() const;
  /// Whether the failure is the loss of a rank.
  bool lost() const;
  /// Whether this process is the lowest rank but the one that failed.
  bool lowest_survivor() const;
  /// Called before this process ends, after it has reported a loss (RankWatch::leave_together).
  void leave_together();
  /// Called before this process ends with another exit code than 0 (RankWatch::delay_exit).
  void delay_exit() const;

  /// Waits until all processes have called it, at the end of a run without failure. Collective.
  void leave();

 private:
  std::shared_ptr<RankWatch> watch() const;
  /// The result of `question`, a member function of the watch, or `alone` if there is no watch.
  template <class Question, class Answer>
  Answer ask(Question question, Answer alone) const;

  const TransportOptions transport_;
  const TransportKind joins_by_;  ///< mpi or tcp; threads if this process is alone.
  mutable std::mutex mutex_;
  std::shared_ptr<RankWatch> watch_;
  std::unique_ptr<ProcessGroup> group_;
};

/// Runs `work`. If `transport` is mpi or tcp and this process has not joined others, joins them for
/// as long as `work` runs; an exception of `work` then ends the others too.
void join_processes(const TransportOptions& transport, FunctionRef<void()> work);

/// Called when this process ends with `error`. If it has not joined others that may wait for it
/// over TCP, joins those that it finds within two seconds and ends them with the same error.
void fail_waiting_processes(const Error& error) noexcept;

/// Finalises MPI, if it was initialised here, before the process exits. After a failure it does
/// nothing, because MPI would wait for lost ranks.
void end_mpi() noexcept;

}  // namespace heliograph
