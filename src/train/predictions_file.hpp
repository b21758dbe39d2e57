#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace heliograph {

inline constexpr const char* kPredictionsFile = "predictions.npy";
inline constexpr const char* kScoresFile = "scores.npy";

/// Writes predictions.npy, int32, rows x cols (1-D if cols is 1), and scores.npy, fp32, unless
/// `scores` is empty (docs/run_directory.md). Nothing to write: no file. Throws as `write_npy`.
void write_predictions(const std::filesystem::path& directory,
                       std::span<const std::int32_t> predictions, std::int32_t cols,
                       std::span<const float> scores);

}  // namespace heliograph
