#pragma once

#include <optional>
#include <vector>

#include "comm/communicator.hpp"
#include "heliograph/model.hpp"
#include "heliograph/train.hpp"
#include "staleness/bit_trend.hpp"
#include "train/checkpoint/state_file.hpp"
#include "train/guard_state.hpp"
#include "train/metrics/best_epoch.hpp"

namespace heliograph {

/// Counts the bytes that a rank sends on Channel::evaluation, for precomputation, evaluation and
/// statistics but not for saving, over a run and the earlier runs that it continues.
class EvaluationBytes {
 public:
  /// `comm` must outlive the object.
  explicit EvaluationBytes(const Communicator& comm) : comm_(comm) {}

  std::int64_t count() const { return comm_.bytes_sent(Channel::evaluation) + correction_; }
  /// Continues at `bytes`, whatever has been sent.
  void set(std::int64_t bytes) { correction_ = bytes - comm_.bytes_sent(Channel::evaluation); }

 private:
  const Communicator& comm_;
  std::int64_t correction_ = 0;
};

/// Leaves out what is sent while it lives.
class Uncounted {
 public:
  explicit Uncounted(EvaluationBytes& bytes) : bytes_(bytes), before_(bytes.count()) {}
  ~Uncounted() { bytes_.set(before_); }
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;

 private:
  EvaluationBytes& bytes_;
  std::int64_t before_;
};

/// The state of one rank's run between two epochs, without its trainer's.
struct RunState {
  /// Before the first epoch. `comm` must outlive the state.
  RunState(int patience, Metric metric, const Communicator& comm)
      : best(patience, metric), evaluation_bytes(comm) {}

  int epochs = 0;    ///< How many have run; the next one has this number.
  BestEpoch best;    ///< Equal on every rank.
  Model best_model;  ///< Of the best epoch, equal on every rank; no tensors before there is one.
  EvaluationBytes evaluation_bytes;
  GuardState guard;
  std::optional<BitTrend> trend;     ///< If bits follow it; a function of the losses of `reports`.
  std::vector<EpochReport> reports;  ///< Rank 0: one for each epoch that has run.
};

/// Whether a run may have sent so many bytes. Sums of larger numbers over epochs could overflow.
inline bool is_sent_bytes(std::int64_t bytes) {
  return bytes >= 0 && bytes < std::int64_t{1} << 50;
}

/// Writes epochs, best epoch, reports and the guard's state, but for its moments, as sections of
/// run.state.
void write_run_state(const RunState& state, StateWriter& file);
/// Reads what `write_run_state` wrote. Throws Error(bad_input) that names file and section.
void read_run_state(const StateFile& file, RunState& state);

}  // namespace heliograph
