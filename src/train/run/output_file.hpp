#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace heliograph {

/// The present time in UTC as "2026-01-31T23:59:59Z".
std::string utc_now();

/// Writes a text file, of which readers see the old or the new contents. Writes to the target of a
/// symbolic link, and directly to a device or pipe.
/// Throws Error that names the file: resource (disk full) or usage (it cannot be created).
void write_text_file(const std::filesystem::path& path, std::string_view text);

inline constexpr const char* kPredictionsFile = "predictions.npy";
inline constexpr const char* kScoresFile = "scores.npy";

/// Writes predictions.npy, int32, rows x cols (1-D if cols is 1), and scores.npy, fp32
/// (docs/run_directory.md). Does not write a file without values. Throws as `write_npy`.
void write_predictions(const std::filesystem::path& directory,
                       std::span<const std::int32_t> predictions, std::int32_t cols,
                       std::span<const float> scores);

}  // namespace heliograph
