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

RankGraph::RankGraph(const RunPlan& plan, const NodeIndex& index, Communicator& comm,
                     Kernels& kernels, MemoryRoom room, MemoryAccount* account)
    : shard_(build_shard(index, comm.rank(), plan.transpose_or_null())),
      structure_(room, account),
      op_(shard_, plan.options.model.kind, kernels, room, account) {
  load_labels(plan);
  structure_.set(bytes_of(shard_) + bytes_of(labels_.class_of) + bytes_of(labels_.indicators) +
                 bytes_of(labels_.role) + bytes_of(target_) + bytes_of(mask_));
  load_features(plan.features, room == MemoryRoom::graph ? MemoryRoom::features : room, account);
  exact_halo_ =
      std::make_unique<ExactHalo>(comm, shard_, largest_halo(shard_, comm),
                                  plan.options.eval_chunk_bytes, kernels.threads(), account);
  if (plan.options.model.precompute) {
    precompute(comm, kernels, room == MemoryRoom::graph ? MemoryRoom::features : room, account);
    if (!Model::reads_features(plan.options.model, plan.features.cols, plan.features.sparse)) {
      x_ = FeatureMatrix();
    }
  }
}

ModelInput RankGraph::input() const {
  ModelInput input{x_.view(), std::nullopt};
  if (!aggregated_.empty()) input.aggregated = aggregated_.view();
  return input;
}

void RankGraph::load_labels(const RunPlan& plan) {
  const Labels& all = plan.dataset.labels;
  labels_.task = all.task;
  labels_.classes = all.classes;
  const std::size_t rows = shard_.global_ids.size();
  labels_.role.reserve(rows);
  mask_.reserve(rows);
  if (all.task == Task::multiclass) {
    labels_.class_of.reserve(rows);
    target_.reserve(rows);
  } else {
    labels_.indicators.reserve(rows * static_cast<std::size_t>(all.classes));
  }
  for (const std::int64_t id : shard_.global_ids) {
    const auto v = static_cast<std::size_t>(id);
    const Role role = plan.split.role[v];
    labels_.role.push_back(role);
    mask_.push_back(role == Role::train ? 1 : 0);
    if (all.task == Task::multiclass) {
      labels_.class_of.push_back(all.class_of[v]);
      target_.push_back(role == Role::train ? all.class_of[v] : -1);
    } else {
      const auto classes = static_cast<std::size_t>(all.classes);
      const std::uint8_t* row = all.indicators.data() + v * classes;
      labels_.indicators.insert(labels_.indicators.end(), row, row + classes);
    }
  }
}

void RankGraph::load_features(const Features& features, MemoryRoom room, MemoryAccount* account) {
  if (!features.sparse) {
    Matrix dense(shard_.inner_rows, features.cols, room, account);
    for (std::int64_t r = 0; r < dense.view().rows; ++r) {
      const auto v = static_cast<std::size_t>(shard_.global_ids[static_cast<std::size_t>(r)]);
      std::copy_n(features.dense.data() + v * static_cast<std::size_t>(features.cols),
                  features.cols, dense.view().row(r));
    }
    x_ = FeatureMatrix(std::move(dense));
    return;
  }
  SparseRows rows;
  rows.cols = features.cols;
  for (const std::int64_t id : shard_.global_ids) {
    const auto v = static_cast<std::size_t>(id);
    const std::int64_t begin = features.offsets[v];
    const std::int64_t end = features.offsets[v + 1];
    rows.columns.insert(rows.columns.end(), features.columns.data() + begin,
                        features.columns.data() + end);
    rows.values.insert(rows.values.end(), features.values.data() + begin,
                       features.values.data() + end);
    rows.offsets.push_back(static_cast<std::int64_t>(rows.columns.size()));
  }
  x_ = FeatureMatrix(std::move(rows), room, account);
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
