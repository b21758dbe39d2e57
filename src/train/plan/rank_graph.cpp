#include "train/plan/rank_graph.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "comm/collectives.hpp"
#include "comm/exchange/setup_exchange.hpp"
#include "core/throw_error.hpp"
#include "graph/covers.hpp"
#include "train/options/given.hpp"

namespace heliograph {
namespace {

/// Above this share of entries that are not 0, a dense product is faster than a sparse one.
constexpr double kDenseShare = 0.2;

std::int64_t largest_halo(const Shard& shard, Communicator& comm) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(comm.size()), 0);
  std::int64_t& mine = rows[static_cast<std::size_t>(comm.rank())];
  for (const HaloPlan* plan : shard.plans()) {
    mine = std::max<std::int64_t>(mine, plan->halo_rows);
  }
  AllReduce(comm, Channel::evaluation).sum(std::span<std::int64_t>(rows));
  return *std::max_element(rows.begin(), rows.end());
}

/// The use that features are counted as, of a graph whose structure is counted as `use`.
MemoryUse features_use(MemoryUse use) {
  return use == MemoryUse::graph ? MemoryUse::features : use;
}

template <class T>
std::int64_t bytes_of(const std::vector<T>& values) {
  return static_cast<std::int64_t>(values.capacity() * sizeof(T));
}

std::int64_t bytes_of(const Csr& block) {
  return bytes_of(block.offsets) + bytes_of(block.columns) + bytes_of(block.values);
}

std::int64_t bytes_of(const Adjacency& a) {
  std::int64_t bytes = bytes_of(a.inner) + bytes_of(a.halo) + bytes_of(a.halo_ids) +
                       bytes_of(a.cover.halo) + bytes_of(a.cover.sent);
  const auto add = [&](const HaloPlan& plan) {
    for (const HaloPlan::Peer& peer : plan.peers) bytes += bytes_of(peer.sent);
  };
  add(a.plan);
  if (!a.sums) return bytes;
  add(a.sums->plan);
  return bytes + bytes_of(a.sums->made) + bytes_of(a.sums->received) + bytes_of(a.sums->ids);
}

std::int64_t bytes_of(const Shard& shard) {
  return bytes_of(shard.global_ids) + bytes_of(shard.in_degree) + bytes_of(shard.in) +
         bytes_of(shard.halo_sources) + (shard.out ? bytes_of(*shard.out) : 0);
}

/// The shard with what training by attention needs: the targets of halo nodes whose features are
/// fetched, and the numbers of halo nodes, which key dropout.
Shard complete(Shard shard, const ModelOptions& model, MemoryUse use, Communicator& comm) {
  if (use != MemoryUse::graph || !attends(model)) return shard;
  const bool fetches = fetches_features(model);
  if (fetches) shard.halo_sources = transpose(shard.in.halo, shard.in.plan.halo_rows);
  const bool drops_features = fetches && model.input_dropout.value_or(model.dropout) > 0;
  if (model.attention_dropout == 0 && !drops_features) return shard;
  const auto add = [&](Adjacency& a) {
    a.halo_ids = exchange_numbers(comm, a.plan, shard.global_ids);
  };
  add(shard.in);
  if (shard.out) add(*shard.out);
  return shard;
}

/// Throws Error(bad_input) if another rank marks other rows that it sends than this rank expects,
/// or the ranks would wait for messages that nobody sends.
void require_same_covers(const Adjacency& a, Communicator& comm) {
  HaloPlan plan = a.plan;  // An inner row has the mark of each row sent.
  std::int32_t next = 0;
  for (HaloPlan::Peer& peer : plan.peers) {
    for (std::int32_t& row : peer.sent) row = next++;
  }
  const std::vector<std::int64_t> sent(a.cover.sent.begin(), a.cover.sent.end());
  if (std::ranges::equal(exchange_numbers(comm, plan, sent), a.cover.halo)) return;
  throw_error(ErrorCode::bad_input, "the covers in the shard of rank {} contradict other shards'",
              comm.rank());
}

}  // namespace

RankGraph::RankGraph(const RunPlan& plan, RankData data, Communicator& comm, Kernels& kernels,
                     MemoryUse use, MemoryAccount* host, MemoryAccount* account)
    : use_(use),
      shard_(complete(std::move(data.shard), composed_model(plan.options()), use, comm)),
      placed_(std::in_place, shard_, kernels.device(), use, account),
      structure_(use, host),
      op_(std::in_place, *placed_, kernels, propagation_of(plan.options().model), use, account),
      x_(std::move(data.features)),
      labels_(std::move(data.labels)) {
  mark_training_rows();
  const auto connect = [&] {
    structure_.set(bytes_of(shard_) + bytes_of(labels_.class_of) + bytes_of(labels_.indicators) +
                   bytes_of(labels_.values) + bytes_of(labels_.role) + bytes_of(target_) +
                   bytes_of(values_) + bytes_of(mask_));
    exact_halo_ = std::make_unique<ExactHalo>(comm, *placed_, largest_halo(shard_, comm),
                                              plan.options().eval_chunk_bytes, account);
  };
  connect();
  const ModelOptions model = composed_model(plan.options());
  const RunFacts& facts = plan.facts();
  const MemoryUse features = features_use(use);
  x_elsewhere_ = FeatureView::shape(facts.feature_cols, facts.sparse_features);
  if (!facts.sparse_features) x_.place(kernels, features, account);
  if (precomputes(model)) gathered_ = aggregate_features(comm, kernels, features, host, account);
  if (fetches_features(model)) gathered_ = fetch_features(comm, kernels, features, host, account);
  if (plan.covers()) {
    cover(comm, kernels, account);  // Features are exchanged once, by rows alone.
    connect();
  } else {
    shard_.in.cover = {};
    if (shard_.out) shard_.out->cover = {};
  }
  // The first rows of fetched features are those of inner nodes. An index of columns has all rows.
  const bool repeated =
      fetches_features(model) && (!facts.sparse_features || shard_.in.plan.halo_rows == 0);
  if (!gathered_.empty() &&
      (repeated || !reads_features(model, facts.feature_cols, facts.sparse_features))) {
    x_ = FeatureMatrix();
  }
  const bool trains = use == MemoryUse::graph;
  for (FeatureMatrix* matrix : {&x_, &gathered_}) {
    if (!facts.sparse_features) break;
    if (trains) matrix->index_columns(features, host);  // For weight gradients.
    matrix->place(kernels, features, account);
  }
  if (repeated) x_elsewhere_ = gathered_.view().row_range({0, shard_.inner_rows});
  if (!trains) return;
  const auto place = [&](const auto& values) {
    using T = typename std::remove_cvref_t<decltype(values)>::value_type;
    return Placed<T>(std::span<const T>(values), kernels.device(), use, account);
  };
  placed_target_ = place(target_);
  placed_values_ = place(values_);
  placed_indicators_ = place(labels_.indicators);
  placed_mask_ = place(mask_);
}

void RankGraph::cover(Communicator& comm, Kernels& kernels, MemoryAccount* account) {
  require_same_covers(shard_.in, comm);
  if (shard_.out) require_same_covers(*shard_.out, comm);
  const std::vector<std::int64_t> in_ids =
      exchange_numbers(comm, shard_.in.plan, shard_.global_ids);
  std::vector<std::int64_t> out_ids;
  if (shard_.out) out_ids = exchange_numbers(comm, shard_.out->plan, shard_.global_ids);
  placed_.reset();
  shard_ = cover_halos(std::move(shard_), in_ids, out_ids);
  placed_.emplace(shard_, kernels.device(), use_, account);
  op_->place_blocks(kernels, use_, account);
}

ModelInput RankGraph::input() const {
  ModelInput input{x_.empty() ? x_elsewhere_ : x_.view(), std::nullopt};
  if (!gathered_.empty()) input.gathered = gathered_.view();
  return input;
}

void RankGraph::mark_training_rows() {
  mask_.reserve(labels_.role.size());
  for (const Role role : labels_.role) mask_.push_back(role == Role::train ? 1 : 0);
  values_.reserve(labels_.values.size());
  for (std::size_t row = 0; row < labels_.values.size(); ++row) {
    const double centred = static_cast<double>(labels_.values[row]) - labels_.target.mean;
    values_.push_back(mask_[row] != 0 ? static_cast<float>(centred / labels_.target.deviation)
                                      : std::numeric_limits<float>::quiet_NaN());
  }
  if (labels_.task != Task::multiclass) return;
  target_ = labels_.class_of;
  for (std::size_t row = 0; row < target_.size(); ++row) {
    if (mask_[row] == 0) target_[row] = -1;
  }
}

FeatureMatrix RankGraph::aggregate_features(Communicator& comm, Kernels& kernels, MemoryUse use,
                                            MemoryAccount* host, MemoryAccount* account) const {
  const FeatureView x = x_.view();
  if (x.is_sparse) {
    const SparseRows inner = op_->scale_columns(x.sparse);
    const SparseRows halo = exchange_sparse_rows(comm, shard_.in.plan, inner.view());
    const SparseRows sum = op_->sum_sparse(inner.view(), halo.view());
    const auto cells = static_cast<double>(sum.rows()) * static_cast<double>(sum.cols);
    if (static_cast<double>(sum.columns.size()) <= kDenseShare * cells) {
      return {sum, use, host};
    }
    Matrix dense(sum.rows(), sum.cols, use, host);
    for (std::int64_t r = 0; r < sum.rows(); ++r) {
      for (auto i = sum.offsets[static_cast<std::size_t>(r)];
           i < sum.offsets[static_cast<std::size_t>(r) + 1]; ++i) {
        dense.view().row(r)[sum.columns[static_cast<std::size_t>(i)]] =
            sum.values[static_cast<std::size_t>(i)];
      }
    }
    return FeatureMatrix(std::move(dense));
  }
  Matrix sum(shard_.inner_rows, x.cols(), use, account);
  BasicMatrix<double> accumulator;
  if (kernels.reproducible()) {
    accumulator = BasicMatrix<double>(shard_.inner_rows, x.cols(), MemoryUse::workspace, account);
  }
  PhaseClock times;
  const PassContext pass{kernels, *exact_halo_, times, {}};
  Site site;
  site.name = "features";
  site.cols = x.cols();
  op_->offer(pass, site, x.dense, {0, x.rows()});
  op_->begin_sum(pass, site, x.dense, sum.view(), {accumulator.view(), {}}, [] {});
  op_->add_halo(pass, site, sum.view(), {0, sum.view().rows});
  kernels.device().finish();  // The caller may free the features.
  return FeatureMatrix(std::move(sum));
}

FeatureMatrix RankGraph::fetch_features(Communicator& comm, Kernels& kernels, MemoryUse use,
                                        MemoryAccount* host, MemoryAccount* account) {
  const std::int64_t inner = shard_.inner_rows, halo = shard_.in.plan.halo_rows;
  const FeatureView x = x_.view();
  if (x.is_sparse) {
    const SparseRows fetched = exchange_sparse_rows(comm, shard_.in.plan, x.sparse);
    if (halo == 0) return std::move(x_);
    SparseRows all;
    all.cols = x.cols();
    all.offsets.assign(x.sparse.offsets, x.sparse.offsets + inner + 1);
    all.columns.assign(x.sparse.columns, x.sparse.columns + x.sparse.entries);
    all.values.assign(x.sparse.values, x.sparse.values + x.sparse.entries);
    for (std::size_t r = 1; r < fetched.offsets.size(); ++r) {
      all.offsets.push_back(x.sparse.entries + fetched.offsets[r]);
    }
    all.columns.insert(all.columns.end(), fetched.columns.begin(), fetched.columns.end());
    all.values.insert(all.values.end(), fetched.values.begin(), fetched.values.end());
    return {all, use, host};
  }
  Site site;
  site.name = "features";
  site.cols = x.cols();
  exact_halo_->open(site, {x.dense});
  exact_halo_->offer(site, {0, inner});
  std::optional<Matrix> all;
  if (halo > 0) {
    all.emplace(inner + halo, x.cols(), use, account);
    kernels.axpby(1, x.dense, 0, all->view().row_range(0, inner));
  }
  Csr identity{{0}, {}};
  for (std::int32_t r = 0; r < halo; ++r) {
    identity.columns.push_back(r);
    identity.offsets.push_back(r + 1);
  }
  const Placed<std::int64_t> offsets(identity.offsets, kernels.device(), use, account);
  const Placed<std::int32_t> columns(identity.columns, kernels.device(), use, account);
  exact_halo_->finish(site, [&](const PackedRows& packed) {
    kernels.aggregate_halo({halo, offsets.data(), columns.data(), nullptr, nullptr}, packed,
                           nullptr, all->view().row_range(inner, halo), {});
  });
  kernels.device().finish();  // Memory that kernels read is freed next.
  return all ? FeatureMatrix(std::move(*all)) : std::move(x_);
}

}  // namespace heliograph
