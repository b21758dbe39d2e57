#include "train/metrics/predictions.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "train/gather_values.hpp"

namespace heliograph {
namespace {

/// Puts row r of `rows` in place ids[r]. There are no rows where nothing was predicted.
template <class T>
std::vector<T> order_by_id(const std::vector<T>& rows, std::span<const std::int64_t> ids,
                           std::int64_t nodes) {
  if (rows.empty()) return {};
  const std::size_t cols = rows.size() / ids.size();
  std::vector<T> ordered(static_cast<std::size_t>(nodes) * cols);
  for (std::size_t row = 0; row < ids.size(); ++row) {
    std::copy_n(rows.data() + row * cols, cols,
                ordered.data() + static_cast<std::size_t>(ids[row]) * cols);
  }
  return ordered;
}

}  // namespace

void BestPredictions::keep(ConstMatrixView logits, const LocalLabels& labels, Metric metric) {
  kept_.values.clear();
  kept_.scores.clear();
  const auto rows = static_cast<std::size_t>(logits.rows);
  kept_.values.reserve(rows * labels.prediction_cols());
  if (metric == Metric::auc) kept_.scores.reserve(rows);
  for (std::int64_t r = 0; r < logits.rows; ++r) {
    const float* z = logits.row(r);
    if (labels.task == Task::multiclass) {
      kept_.values.push_back(predicted_class(z, labels.classes));
    } else {
      for (std::int32_t c = 0; c < labels.classes; ++c) kept_.values.push_back(z[c] > 0);
    }
    if (metric == Metric::auc) kept_.scores.push_back(1.0F / (1.0F + std::exp(z[0] - z[1])));
  }
  count_bytes();
}

void BestPredictions::restore(Predictions predictions) {
  kept_ = std::move(predictions);
  count_bytes();
}

void BestPredictions::count_bytes() {
  bytes_.set(static_cast<std::int64_t>(kept_.values.capacity() * sizeof(std::int32_t) +
                                       kept_.scores.capacity() * sizeof(float)));
}

Predictions BestPredictions::gather(std::span<const std::int64_t> ids, std::int64_t nodes,
                                    Communicator& comm) const {
  const auto all_ids = gather_values(comm, ids);
  const auto values = gather_values(comm, std::span(kept_.values));
  const auto scores = gather_values(comm, std::span(kept_.scores));
  return {order_by_id(values, all_ids, nodes), order_by_id(scores, all_ids, nodes)};
}

}  // namespace heliograph
