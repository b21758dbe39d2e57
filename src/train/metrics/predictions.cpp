#include "train/metrics/predictions.hpp"

#include <algorithm>
#include <cmath>

#include "core/host_copy.hpp"
#include "train/gather_values.hpp"

namespace heliograph {
namespace {

/// The class of each row, or a 0 or 1 for each class.
std::vector<std::int32_t> predict_rows(ConstMatrixView logits, const LocalLabels& labels) {
  std::vector<std::int32_t> values;
  values.reserve(static_cast<std::size_t>(logits.rows) * labels.prediction_cols());
  for (std::int64_t r = 0; r < logits.rows; ++r) {
    const float* z = logits.row(r);
    if (labels.task == Task::multiclass) {
      values.push_back(predicted_class(z, labels.classes));
    } else {
      for (std::int32_t c = 0; c < labels.classes; ++c) values.push_back(z[c] > 0);
    }
  }
  return values;
}

/// The predicted number of each row.
std::vector<float> value_rows(ConstMatrixView outputs, const LocalLabels& labels) {
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(outputs.rows));
  for (std::int64_t r = 0; r < outputs.rows; ++r) {
    values.push_back(labels.predicted_value(outputs.row(r)[0]));
  }
  return values;
}

/// The score of class 1 of two, for each row.
std::vector<float> score_rows(ConstMatrixView logits) {
  std::vector<float> scores;
  scores.reserve(static_cast<std::size_t>(logits.rows));
  for (std::int64_t r = 0; r < logits.rows; ++r) {
    const float* z = logits.row(r);
    scores.push_back(1.0F / (1.0F + std::exp(z[0] - z[1])));
  }
  return scores;
}

}  // namespace

Outputs gather_outputs(const LocalOutputs& mine, const LocalLabels& labels, Metric metric,
                       bool keeps_logits, std::span<const std::int64_t> ids, std::int64_t nodes,
                       Communicator& comm) {
  const std::vector<std::int64_t> all_ids = gather_values(comm, ids);
  // Puts the row of each rank's inner row r in place ids[r].
  const auto gather = [&]<class T>(const std::vector<T>& rows) {
    const std::vector<T> all = gather_values(comm, std::span<const T>(rows));
    std::vector<T> ordered(all.size());
    const std::size_t cols = all.size() / static_cast<std::size_t>(nodes);
    for (std::size_t row = 0; row < all_ids.size() && cols > 0; ++row) {
      std::copy_n(all.data() + row * cols, cols,
                  ordered.data() + static_cast<std::size_t>(all_ids[row]) * cols);
    }
    return ordered;
  };
  Outputs outputs;
  if (labels.task == Task::regression) {
    outputs.values = gather(value_rows(mine.logits, labels));
  } else {
    outputs.predictions = gather(predict_rows(mine.logits, labels));
  }
  outputs.prediction_cols = static_cast<std::int32_t>(labels.prediction_cols());
  if (ranks_nodes(metric)) outputs.scores = gather(score_rows(mine.logits));
  if (keeps_logits) outputs.logits = gather(values_of(mine.logits));
  if (mine.embedding_cols > 0) {
    outputs.embeddings = gather(mine.embeddings);
    outputs.embedding_cols = static_cast<std::int32_t>(mine.embedding_cols);
  }
  return outputs;
}

}  // namespace heliograph
