#include "train/predictions_file.hpp"

#include "graph/npy.hpp"

namespace heliograph {

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
