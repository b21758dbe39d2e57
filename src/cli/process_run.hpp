#pragma once

#include <functional>
#include <string>

#include "cli/data_options.hpp"
#include "cli/loss_guard.hpp"
#include "heliograph/options.hpp"
#include "train/processes.hpp"

namespace heliograph::cli {

/// Joins this process to the others that a launcher started with it, if there are any, and runs
/// `work` with them. Returns its exit code, or that of a failure which another process reports.
/// `messages`: whether to print for whom it waits. Blocks SIGINT, SIGTERM, SIGHUP and SIGUSR1, so
/// `work` must make a SignalWatch. `advise`: makes LossGuard's advice; `launched` says whether a
/// launcher started the ranks. Throws Error if this process is the one to report a failure.
int run_as_process(const TransportOptions& transport, const DataOptions& messages,
                   const std::function<std::function<std::string()>(bool launched)>& advise,
                   const std::function<int(Processes&, LossGuard&)>& work);

}  // namespace heliograph::cli
