#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace heliograph {

/// Weights and statistics, and this rank's moments, to which a run may go back.
struct KeptStep {
  std::int64_t epochs = 0;  ///< How many had run.
  std::int64_t steps = 0;   ///< How many steps had led to the weights.
  double mean = std::numeric_limits<double>::infinity();  ///< The mean loss; infinite: unknown.
  std::vector<float> values, first_moments, second_moments;
};

/// What a guard remembers between two epochs; equal on every rank but for the moments.
struct GuardState {
  static constexpr std::int64_t kWindow = 5;

  std::int64_t watched = 0;  ///< Epochs since it began or last went back.
  std::int64_t raised = 0;   ///< How often it has gone back.
  std::int64_t undone = 0;   ///< Steps that were undone: epochs - undone led to the weights.
  std::array<double, kWindow> losses{};  ///< Of the last epochs watched, by epoch % kWindow.
  /// The lowest mean of kWindow losses among the epochs watched.
  double lowest = std::numeric_limits<double>::infinity();
  std::optional<KeptStep> kept;
};

}  // namespace heliograph
