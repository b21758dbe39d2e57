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

std::vector<std::filesystem::path> abandon_files(bool waits) noexcept {
  return abandon_unpublished(waits);
}

void write_rows(const std::filesystem::path& path, std::span<const float> values,
                const Outputs& outputs) {
  const auto rows = outputs.values.empty() ? static_cast<std::int64_t>(outputs.predictions.size()) /
                                                 outputs.prediction_cols
                                           : static_cast<std::int64_t>(outputs.values.size());
  write_npy(path, {.dtype = "<f4",
                   .shape = {rows, static_cast<std::int64_t>(values.size()) / rows},
                   .data = std::as_bytes(values)});
}

void write_outputs(const std::filesystem::path& directory, const Outputs& outputs,
                   const BeforeFile& before_file) {
  const std::vector<std::int32_t>& predictions = outputs.predictions;
  if (predictions.empty() && outputs.values.empty()) return;
  const auto begin = [&](const char* name) {
    const std::filesystem::path path = directory / name;
    if (before_file) before_file(path.string());
    return path;
  };
  if (!predictions.empty()) {
    write_npy(begin(kPredictionsFile), predictions,
              static_cast<std::int64_t>(predictions.size()) / outputs.prediction_cols,
              outputs.prediction_cols);
  }
  const auto write_column = [&](const char* name, const std::vector<float>& values) {
    if (!values.empty()) write_npy(begin(name), values, std::ssize(values), 1);
  };
  const auto write_matrix = [&](const char* name, const std::vector<float>& values) {
    if (!values.empty()) write_rows(begin(name), values, outputs);
  };
  write_column(kPredictionsFile, outputs.values);
  write_column(kScoresFile, outputs.scores);
  write_matrix(kLogitsFile, outputs.logits);
  write_matrix(kEmbeddingsFile, outputs.embeddings);
}

}  // namespace heliograph
