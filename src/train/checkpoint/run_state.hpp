#pragma once

#include <span>
#include <vector>

#include "heliograph/train.hpp"
#include "train/best_epoch.hpp"
#include "train/checkpoint/state_file.hpp"

namespace heliograph {

/// Where a run stands between two epochs, beside what its trainer holds: equal on every rank, but
/// for `reports` and `best_epoch`, which rank 0 keeps.
struct RunState {
  int epochs = 0;  ///< That have run.
  BestEpoch best;
  int best_epoch = -1;
  std::vector<EpochReport> reports;  ///< One for each epoch that has run.
};

/// As sections of run.state.
void write_run_state(const RunState& state, std::span<const EpochReport> reports,
                     StateWriter& file);
/// Throws Error(bad_input) that names file and section.
RunState read_run_state(const StateFile& file, int patience);

}  // namespace heliograph
