#pragma once

#include <string>
#include <vector>

#include "cli/loss_guard.hpp"
#include "cli/train_request.hpp"
#include "train/processes.hpp"

namespace heliograph::cli {

/// Trains one run of the command, from its request to its files, reports it and answers signals.
/// `words`: the arguments as given. `notes`: warnings to print. Returns the exit code. Throws Error
/// as `train` does, and if files cannot be written.
int run_training(TrainRequest request, std::vector<std::string> words,
                 std::vector<std::string> notes, Processes& processes, LossGuard& guard);

}  // namespace heliograph::cli
