#include "graph/generate_features.hpp"

#include <cmath>

#include "graph/generate_draws.hpp"

namespace heliograph {

FeatureRows::FeatureRows(const GenerateOptions& options, const LabelLists& labels)
    : labels_(labels),
      cols_(static_cast<std::size_t>(options.feature_cols)),
      noise_(options.feature_noise),
      stream_(generator_stream(options.seed, Drawn::feature)),
      means_(static_cast<std::size_t>(options.classes) * cols_) {
  const std::uint64_t stream = generator_stream(options.seed, Drawn::mean);
  const double deviation = 1.0 / std::sqrt(static_cast<double>(cols_));
  for (std::size_t i = 0; i < means_.size(); ++i) {
    means_[i] = deviation * Draws(stream, i).normals().first;
  }
}

void FeatureRows::fill(NodeId v, std::span<float> row) const {
  Draws draws(stream_, static_cast<std::uint64_t>(v));
  const auto own = labels_.of(v);
  const auto signal = [&](std::size_t j) {
    double sum = 0;
    for (const std::int32_t c : own) sum += means_[static_cast<std::size_t>(c) * cols_ + j];
    return sum;
  };
  for (std::size_t j = 0; j < cols_; j += 2) {
    const auto [even, odd] = draws.normals();
    row[j] = static_cast<float>(signal(j) + noise_ * even);
    if (j + 1 < cols_) row[j + 1] = static_cast<float>(signal(j + 1) + noise_ * odd);
  }
}

}  // namespace heliograph
