#include "train/run/output_file.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <span>
#include <system_error>

#include "graph/io/files.hpp"
#include "graph/io/npy.hpp"

namespace heliograph {

std::string utc_now() {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  const auto bytes = std::as_bytes(std::span<const char>(text.data(), text.size()));
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    FileWriter device(path);
    device.write(bytes);
    device.close();
    return;
  }
  std::filesystem::path target = path;
  if (std::filesystem::is_symlink(path, ignored)) {
    target = std::filesystem::weakly_canonical(path, ignored);
    if (ignored) target = path;
  }
  write_file_atomically(target, bytes);
}

void write_predictions(const std::filesystem::path& directory,
                       std::span<const std::int32_t> predictions, std::int32_t cols,
                       std::span<const float> scores) {
  if (predictions.empty()) return;
  write_npy(directory / kPredictionsFile, predictions,
            static_cast<std::int64_t>(predictions.size()) / cols, cols);
  if (!scores.empty()) {
    write_npy(directory / kScoresFile, scores, static_cast<std::int64_t>(scores.size()), 1);
  }
}

}  // namespace heliograph
