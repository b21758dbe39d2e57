#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace heliograph {

/// "2026-01-31T23:59:59Z".
std::string utc_now();

/// Writes a whole text file: readers see the old one or the new one. A symbolic link keeps
/// pointing where it does; a device or pipe, which no file may replace, is written to directly.
/// Throws Error that names the file: resource (disk full) or usage (it cannot be created).
void write_text_file(const std::filesystem::path& path, std::string_view text);

inline constexpr const char* kPredictionsFile = "predictions.npy";
inline constexpr const char* kScoresFile = "scores.npy";

/// Writes predictions.npy, int32, rows x cols (1-D if cols is 1), and scores.npy, fp32, unless
/// `scores` is empty (docs/run_directory.md). Nothing to write: no file. Throws as `write_npy`.
void write_predictions(const std::filesystem::path& directory,
                       std::span<const std::int32_t> predictions, std::int32_t cols,
                       std::span<const float> scores);

}  // namespace heliograph
