#include "support/passes.hpp"

#include <algorithm>

namespace heliograph::test {
namespace {

Partition one_part(const Dataset& dataset) {
  return {1, std::vector<std::int32_t>(static_cast<std::size_t>(dataset.graph.nodes), 0)};
}

}  // namespace

SingleRank::SingleRank(const Dataset& dataset, ModelOptions options, bool reproducible, int blocks)
    : dataset_(dataset),
      partition_(one_part(dataset)),
      index_(dataset.graph, partition_),
      transposed_(dataset.graph.directed ? std::optional<Graph>(transpose(dataset.graph))
                                         : std::nullopt),
      shard_(build_shard(index_, 0, transposed_ ? &*transposed_ : nullptr)),
      kernels_(make_cpu_kernels(2, reproducible)),
      placed_(shard_, kernels_->device(), MemoryUse::graph, nullptr),
      op_(placed_, *kernels_, propagation_of(options), MemoryUse::graph, nullptr) {
  const Features& f = dataset.features;
  if (f.sparse) {
    SparseRows rows;
    rows.cols = f.cols;
    rows.offsets.assign(f.offsets.begin(), f.offsets.end());
    rows.columns.assign(f.columns.begin(), f.columns.end());
    rows.values.assign(f.values.begin(), f.values.end());
    if (options.precompute) {
      const SparseRows scaled = op_.scale_columns(rows.view());
      SparseRows no_halo;
      no_halo.cols = f.cols;
      aggregated_ = FeatureMatrix(op_.sum_sparse(scaled.view(), no_halo.view()),
                                  MemoryUse::features, nullptr);
    }
    x_ = FeatureMatrix(rows, MemoryUse::features, nullptr);
    x_.index_columns(MemoryUse::features, nullptr);
    aggregated_.index_columns(MemoryUse::features, nullptr);
  } else {
    Matrix x(f.rows, f.cols, MemoryUse::features, nullptr);
    for (std::int64_t r = 0; r < f.rows; ++r) {
      std::copy_n(f.dense.data() + r * f.cols, f.cols, x.view().row(r));
    }
    if (options.precompute) {
      Matrix sum(f.rows, f.cols, MemoryUse::features, nullptr);
      BasicMatrix<double> accumulator(f.rows, f.cols, MemoryUse::features, nullptr);
      op_.begin_sum(pass(), {}, x.view(), sum.view(),
                    {reproducible ? accumulator.view() : AccumulatorView{}, {}}, [] {});
      op_.add_halo(pass(), {}, sum.view(), {0, f.rows});
      aggregated_ = FeatureMatrix(std::move(sum));
    }
    x_ = FeatureMatrix(std::move(x));
  }
  model_ = std::make_unique<Network>(options, input(), dataset.labels.classes, 5,
                                     PassRows{f.rows, f.rows, blocks}, *kernels_, nullptr);
  for (std::size_t v = 0; v < static_cast<std::size_t>(f.rows); ++v) {
    const bool train = dataset.splits[0].role[v] == Role::train;
    mask_.push_back(train ? 1 : 0);
    if (dataset.labels.task == Task::multiclass) {
      target_.push_back(train ? dataset.labels.class_of[v] : -1);
    }
  }
}

ModelInput SingleRank::input() const {
  ModelInput input{x_.view(), x_.view()};  // No node is in a halo.
  if (!aggregated_.empty()) input.gathered = aggregated_.view();
  return input;
}

double SingleRank::loss() {
  const ConstMatrixView logits = model_->forward(pass(), op_, input());
  const MatrixView d = model_->logit_gradient();
  const double terms = static_cast<double>(std::count(mask_.begin(), mask_.end(), 1)) *
                       (dataset_.labels.task == Task::multilabel ? dataset_.labels.classes : 1);
  const auto scale = static_cast<float>(1.0 / terms);
  const double sum = dataset_.labels.task == Task::multiclass
                         ? kernels_->softmax_cross_entropy(logits, {target_.data()}, scale, d)
                         : kernels_->binary_cross_entropy(logits, dataset_.labels.indicators.data(),
                                                          mask_.data(), scale, d);
  return sum / terms;
}

double SingleRank::loss_and_gradients() {
  return loss_and_gradients([](std::int64_t, std::int64_t) {}, [] {});
}

double SingleRank::loss_and_gradients(FunctionRef<void(std::int64_t, std::int64_t)> complete,
                                      FunctionRef<void()> release) {
  const double value = loss();
  model_->backward(pass(), op_, complete, release);
  return value;
}

}  // namespace heliograph::test
