#include "train/rank_graph.hpp"

#include <algorithm>
#include <utility>

#include "comm/collectives.hpp"
#include "comm/sparse_exchange.hpp"

namespace heliograph {
namespace {

/// Above this share of entries the dense product is faster than the sparse one.
constexpr double kDenseShare = 0.2;

std::int64_t largest_halo(const Shard& shard, Communicator& comm) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(comm.size()), 0);
  rows[static_cast<std::size_t>(comm.rank())] =
      std::max(shard.in.plan.halo_rows, shard.out ? shard.out->plan.halo_rows : 0);
  AllReduce(comm, Channel::evaluation).sum(std::span<std::int64_t>(rows));
  return *std::max_element(rows.begin(), rows.end());
}

/// Where features are counted, of a graph that is counted in `room`.
MemoryRoom features_room(MemoryRoom room) {
  return room == MemoryRoom::graph ? MemoryRoom::features : room;
}

template <class T>
std::int64_t bytes_of(const std::vector<T>& values) {
  return static_cast<std::int64_t>(values.capacity() * sizeof(T));
}

std::int64_t bytes_of(const Adjacency& a) {
  std::int64_t bytes = bytes_of(a.inner.offsets) + bytes_of(a.inner.columns) +
                       bytes_of(a.halo.offsets) + bytes_of(a.halo.columns);
  for (const HaloPlan::Peer& peer : a.plan.peers) bytes += bytes_of(peer.send_rows);
  return bytes;
}

std::int64_t bytes_of(const Shard& shard) {
  return bytes_of(shard.global_ids) + bytes_of(shard.in_degree) + bytes_of(shard.in) +
         (shard.out ? bytes_of(*shard.out) : 0);
}

}  // namespace

RankGraph::RankGraph(const RunPlan& plan, RankData data, Communicator& comm, Kernels& kernels,
                     MemoryRoom room, MemoryAccount* account)
    : shard_(std::move(data.shard)),
      structure_(room, account),
      op_(shard_, plan.options().model.kind, kernels, room, account),
      x_(std::move(data.features)),
      labels_(std::move(data.labels)) {
  mark_training_rows();
  structure_.set(bytes_of(shard_) + bytes_of(labels_.class_of) + bytes_of(labels_.indicators) +
                 bytes_of(labels_.role) + bytes_of(target_) + bytes_of(mask_));
  exact_halo_ =
      std::make_unique<ExactHalo>(comm, shard_, largest_halo(shard_, comm),
                                  plan.options().eval_chunk_bytes, kernels.threads(), account);
  const ModelOptions& model = plan.options().model;
  if (model.precompute) {
    precompute(comm, kernels, features_room(room), account);
    const RunFacts& facts = plan.facts();
    if (!Model::reads_features(model, facts.feature_cols, facts.sparse_features)) {
      x_ = FeatureMatrix();
    }
  }
  if (room != MemoryRoom::graph) return;  // Only what is trained on has weight gradients.
  x_.index_columns(features_room(room), account);
  aggregated_.index_columns(features_room(room), account);
}

ModelInput RankGraph::input() const {
  ModelInput input{x_.view(), std::nullopt};
  if (!aggregated_.empty()) input.aggregated = aggregated_.view();
  return input;
}

void RankGraph::mark_training_rows() {
  mask_.reserve(labels_.role.size());
  for (const Role role : labels_.role) mask_.push_back(role == Role::train ? 1 : 0);
  if (labels_.task != Task::multiclass) return;
  target_ = labels_.class_of;
  for (std::size_t row = 0; row < target_.size(); ++row) {
    if (mask_[row] == 0) target_[row] = -1;
  }
}

void RankGraph::precompute(Communicator& comm, Kernels& kernels, MemoryRoom room,
                           MemoryAccount* account) {
  const FeatureView x = x_.view();
  if (x.is_sparse) {
    const SparseRows inner = op_.scale_columns(x.sparse);
    const SparseRows halo = exchange_sparse_rows(comm, shard_.in.plan, inner.view());
    SparseRows sum = op_.sum_sparse(inner.view(), halo.view());
    const auto cells = static_cast<double>(sum.rows()) * static_cast<double>(sum.cols);
    if (static_cast<double>(sum.columns.size()) <= kDenseShare * cells) {
      aggregated_ = FeatureMatrix(std::move(sum), room, account);
      return;
    }
    Matrix dense(sum.rows(), sum.cols, room, account);
    for (std::int64_t r = 0; r < sum.rows(); ++r) {
      for (auto i = sum.offsets[static_cast<std::size_t>(r)];
           i < sum.offsets[static_cast<std::size_t>(r) + 1]; ++i) {
        dense.view().row(r)[sum.columns[static_cast<std::size_t>(i)]] =
            sum.values[static_cast<std::size_t>(i)];
      }
    }
    aggregated_ = FeatureMatrix(std::move(dense));
    return;
  }
  Matrix sum(shard_.inner_rows, x.cols(), room, account);
  BasicMatrix<double> accumulator;
  if (kernels.reproducible()) {
    accumulator = BasicMatrix<double>(shard_.inner_rows, x.cols(), MemoryRoom::workspace, account);
  }
  PhaseClock clock;
  const PassContext pass{kernels, *exact_halo_, clock, 0, 0};
  op_.apply(pass, Direction::forward, 0, x.dense, false, sum.view(), accumulator.view(), [] {});
  aggregated_ = FeatureMatrix(std::move(sum));
}

}  // namespace heliograph
