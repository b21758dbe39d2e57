#include "cli/process_run.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "cli/progress.hpp"
#include "cli/signals.hpp"
#include "heliograph/error.hpp"

namespace heliograph::cli {
namespace {

/// Throws Error if a signal asks to stop. For the time before a SignalWatch exists.
void stop_if_asked() {
  const int signal = SignalWatch::waiting();
  if (signal == 0) return;
  throw Error(ErrorCode::interrupted,
              fmt::format("stopped by {} before all ranks had met", signal_name(signal)));
}

}  // namespace

int run_as_process(const TransportOptions& transport, const DataOptions& messages,
                   const std::function<std::function<std::string()>(bool launched)>& advise,
                   const std::function<int(Processes&, LossGuard&)>& work) {
  SignalWatch::block();  // Before `join`, which starts threads.
  Processes processes(transport);
  LossGuard guard(processes, advise(processes.joins_others()));
  try {
    {
      Progress progress(0, messages.quiet, messages.log_level);
      processes.join(stop_if_asked, progress.callback());
    }
    const int code = work(processes, guard);
    if (code != 0) processes.delay_exit();
    end_mpi();
    return code;
  } catch (...) {
    settle_own_signal();
    processes.fail();
    if (processes.lost()) {
      std::fflush(stdout);
      guard.dismiss();
      guard.report_and_leave();
    }
    const bool reports = processes.reports();
    guard.dismiss();
    const ErrorCode code = processes.failure_code();
    if (!reports) return exit_code(code);
    // Wrong words are wrong on every rank; other failures are one rank's, which its message names.
    if (processes.joined() && code != ErrorCode::usage) throw Error(code, processes.failure_text());
    throw;
  }
}

}  // namespace heliograph::cli
