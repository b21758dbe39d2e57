#include <algorithm>
#include <cfloat>
#include <cmath>
#include <utility>
#include <vector>

#include "core/throw_error.hpp"
#include "graph/validate.hpp"
#include "heliograph/io.hpp"

namespace heliograph {
namespace {

/// Divides ranges of values by the sum of their absolute values; leaves ranges of zeros as they
/// are.
class RowScaler {
 public:
  explicit RowScaler(const Array<float>& values) : values_(values.begin(), values.end()) {}

  void scale(std::size_t begin, std::size_t end) {
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += std::fabs(static_cast<double>(values_[i]));
    if (sum == 0) return;
    for (std::size_t i = begin; i < end; ++i) {
      values_[i] = static_cast<float>(static_cast<double>(values_[i]) / sum);
    }
  }

  std::vector<float> take() { return std::move(values_); }

 private:
  std::vector<float> values_;
};

Features normalize_rows(const Features& features) {
  Features out = features;
  RowScaler rows(features.sparse ? features.values : features.dense);
  const auto cols = static_cast<std::size_t>(features.cols);
  for (std::size_t r = 0; r < static_cast<std::size_t>(features.rows); ++r) {
    if (features.sparse) {
      rows.scale(static_cast<std::size_t>(features.offsets[r]),
                 static_cast<std::size_t>(features.offsets[r + 1]));
    } else {
      rows.scale(r * cols, (r + 1) * cols);
    }
  }
  (features.sparse ? out.values : out.dense) = rows.take();
  return out;
}

void require_dense(const Features& features) {
  if (!features.sparse) return;
  throw_error(ErrorCode::usage,
              "standard normalisation would make sparse features dense: use --normalize none|row");
}

Features standardize(const Features& features, const FeatureStatistics& statistics) {
  require_dense(features);
  const auto cols = static_cast<std::size_t>(features.cols);
  if (statistics.mean.size() != cols || statistics.deviation.size() != cols) {
    throw_error(
        ErrorCode::mismatch,
        "standard normalisation: the statistics are of {} columns, and the features have {}",
        statistics.mean.size(), cols);
  }
  std::vector<float> values(features.dense.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t c = i % cols;
    const double centred = static_cast<double>(features.dense[i]) - statistics.mean[c];
    values[i] = static_cast<float>(centred / statistics.deviation[c]);
  }
  Features out = features;
  out.dense = std::move(values);
  return out;
}

}  // namespace

FeatureStatistics fit_features(const Features& features, const std::vector<std::uint8_t>& fit_on) {
  require_dense(features);
  validate_features(features, features.rows, "the features");
  const auto rows = static_cast<std::size_t>(features.rows);
  const auto cols = static_cast<std::size_t>(features.cols);
  if (!fit_on.empty() && fit_on.size() != rows) {
    throw_error(ErrorCode::usage, "standard normalisation: {} flags for {} nodes", fit_on.size(),
                rows);
  }
  std::vector<double> mean(cols, 0);
  std::vector<double> deviation(cols, 0);
  std::vector<double> largest(cols, 0);
  std::int64_t fitted = 0;
  const auto for_each_fitted = [&](auto&& use) {
    for (std::size_t r = 0; r < rows; ++r) {
      if (fit_on.empty() || fit_on[r] != 0) use(features.dense.data() + r * cols);
    }
  };
  for_each_fitted([&](const float* row) {
    ++fitted;
    for (std::size_t c = 0; c < cols; ++c) {
      mean[c] += row[c];
      largest[c] = std::max(largest[c], std::fabs(static_cast<double>(row[c])));
    }
  });
  if (fitted == 0) {
    throw Error(ErrorCode::usage,
                "standard normalisation: there is no node to compute statistics on");
  }
  for (double& m : mean) m /= static_cast<double>(fitted);
  for_each_fitted([&](const float* row) {
    for (std::size_t c = 0; c < cols; ++c) {
      const double d = row[c] - mean[c];
      deviation[c] += d * d;
    }
  });
  for (std::size_t c = 0; c < cols; ++c) {
    deviation[c] = std::sqrt(deviation[c] / static_cast<double>(fitted));
    // A column that is constant up to rounding is centred but not scaled.
    if (deviation[c] <= FLT_EPSILON * largest[c] || deviation[c] < FLT_MIN) deviation[c] = 1;
  }
  return {{mean.begin(), mean.end()}, {deviation.begin(), deviation.end()}};
}

Features normalize_features(const Features& features, Normalization normalization,
                            const FeatureStatistics& statistics) {
  if (normalization == Normalization::none) return features;
  validate_features(features, features.rows, "the features");
  if (normalization == Normalization::row) return normalize_rows(features);
  return standardize(features, statistics);
}

}  // namespace heliograph
