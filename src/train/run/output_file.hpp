#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heliograph/model.hpp"

namespace heliograph {

/// The present time in UTC as "2026-01-31T23:59:59Z".
std::string utc_now();

/// Writes a text file, of which readers see the old or the new contents. Writes to the target of a
/// symbolic link, and directly to a device or pipe.
/// Throws Error that names the file: resource (disk full) or usage (it cannot be created).
void write_text_file(const std::filesystem::path& path, std::string_view text);

/// Removes files and data sets that other threads are writing and have not finished, and returns
/// those that are. The process must end right after it. Waits while one is published;
/// unless `waits`, it gives up after a tenth of a second.
std::vector<std::filesystem::path> abandon_files(bool waits) noexcept;

inline constexpr const char* kPredictionsFile = "predictions.npy";
inline constexpr const char* kScoresFile = "scores.npy";
inline constexpr const char* kLogitsFile = "logits.npy";
inline constexpr const char* kEmbeddingsFile = "embeddings.npy";
inline constexpr const char* kBestFile = "best.safetensors";  ///< Weights of the best epoch.

/// Called with the path of a file before it is written.
using BeforeFile = std::function<void(const std::string& path)>;

/// Writes those of predictions.npy, int32, scores.npy, logits.npy and embeddings.npy, fp32, that
/// `outputs` has values for (docs/run_directory.md). Throws as `write_npy`.
void write_outputs(const std::filesystem::path& directory, const Outputs& outputs,
                   const BeforeFile& before_file = {});

/// Writes a matrix, two axes even if it has one column, with a row for each of `outputs`'
/// predictions. Throws as `write_npy`.
void write_rows(const std::filesystem::path& path, std::span<const float> values,
                const Outputs& outputs);

}  // namespace heliograph
