#include "layers/attend_dynamic.hpp"

#include "layers/gradients.hpp"

namespace heliograph {

AttendDynamic::AttendDynamic(Declare& declare, const Options& options) : AttentionStep(options) {
  const std::int64_t in = declare.value(options.x).cols, cols = options.cols;
  const std::int64_t heads = options.heads, head_cols = cols / heads;
  source_weight_ = declare.parameter("source.weight", in, cols, ParameterKind::weight);
  target_weight_ = declare.parameter("target.weight", in, cols, ParameterKind::weight);
  vector_ = declare.parameter("vector", heads, head_cols, ParameterKind::weight);
  declare_output(declare);
  const std::int64_t message = cols + out_, target = message + 2 * heads;
  const Uses backward{.backward = true};
  if (!options.has_halo) {
    forward_site_ = declare.site(Direction::forward, cols, false, 0, options.heads);
    declare.keeps_sent(forward_site_);
    backward_site_ = declare.site(Direction::backward, message, false, 2 * heads,
                                  static_cast<int>(message / head_cols));
    halo_targets_ = declare.scratch(target, backward, sizeof(float), MatrixRows::backward_halo);
    sent_ = declare.scratch(cols, backward);
  }
  sources_ = declare.saves(cols, false, MatrixRows::all);
  targets_ = declare.saves(cols);
  log_total_ = declare.saves(heads);
  backward_targets_ = declare.scratch(target, backward);
  source_gradient_ = declare.scratch(cols, backward, sizeof(float), rows_of_x());
  target_gradient_ = declare.scratch(cols, backward, sizeof(float), rows_of_x());
}

DynamicAttention AttendDynamic::attention(const Pass& pass) const {
  DynamicAttention a;
  a.heads = options_.heads;
  a.cols = options_.cols;
  a.gradient_cols = out_;
  a.slope = options_.slope;
  a.vector = pass.parameter(vector_).data;
  return a;
}

DynamicAttention AttendDynamic::forward_attention(const Pass& pass, ConstMatrixView targets) const {
  const PlacedShard& shard = pass.graph.shard();
  const std::int64_t epoch = pass.context.clock.epoch, inner = pass.graph.rows();
  const ConstMatrixView sources = pass.saved(sources_);
  DynamicAttention a = attention(pass);
  a.inner = {shard.inner(Direction::forward), targets, sources,
             dropout(pass, Direction::forward, false, epoch), true};
  a.halo = {shard.halo(Direction::forward), targets,
            sources.row_range(inner, pass.graph.halo_rows()),
            dropout(pass, Direction::forward, true, epoch)};
  return a;
}

void AttendDynamic::offer(const Pass& pass, RowRange rows) {
  const RowRange offered = rows;
  if (options_.has_halo && rows.end == pass.graph.rows()) rows.end += pass.graph.halo_rows();
  const MatrixView sources = pass.saved(sources_);
  {
    const PhaseTimer timer(pass.times().gemm);
    multiply(pass.kernels(), pass.read(options_.x).row_range(rows), pass.parameter(source_weight_),
             false, nullptr, sources.row_range(rows));
  }
  if (options_.has_halo) return;
  const Site& site = pass.site(forward_site_);
  if (rows.begin == 0) {
    pass.context.halo.open(site, {sources.row_range(0, pass.graph.rows())});
  }
  pass.context.halo.offer(site, offered);
}

void AttendDynamic::gather(const Pass& pass) {
  Kernels& k = pass.kernels();
  const MatrixView targets = pass.saved(targets_);
  {
    const PhaseTimer timer(pass.times().gemm);
    multiply(k, pass.read(options_.x).row_range({0, targets.rows}), pass.parameter(target_weight_),
             false, nullptr, targets);
  }
  if (!options_.has_halo) {
    const MatrixView halo = pass.saved(sources_).row_range(targets.rows, pass.graph.halo_rows());
    pass.context.halo.finish(pass.site(forward_site_), [&](const PackedRows& packed) {
      const PhaseTimer timer(pass.times().aggregate);
      k.decode_rows(packed, nullptr, halo, {});
    });
  }
  const PhaseTimer timer(pass.times().aggregate);
  k.dynamic_attention(forward_attention(pass, targets), heads_output(pass),
                      pass.training() ? pass.saved(log_total_) : MatrixView{});
}

MatrixView AttendDynamic::make_targets(const Pass& pass, ConstMatrixView dy) const {
  const PhaseTimer timer(pass.times().aggregate);
  Kernels& k = pass.kernels();
  const std::int64_t cols = options_.cols, heads = options_.heads;
  const MatrixView all = pass.scratch(backward_targets_);
  const MatrixView d = all.col_range(cols, out_);
  k.axpby(1, pass.saved(targets_), 0, all.col_range(0, cols));
  k.axpby(share(), dy, 0, d);
  k.axpby(1, pass.saved(log_total_), 0, all.col_range(cols + out_, heads));
  k.attention_target_gradient(d, 1, 1, saved_heads(pass), {}, {},
                              all.col_range(cols + out_ + heads, heads), {});
  return all;
}

ConstMatrixView AttendDynamic::sent_sources(const Pass& pass, std::int64_t made) const {
  Halo& halo = pass.context.halo;
  const Site& forward = pass.site(forward_site_);
  const ConstMatrixView own = pass.saved(sources_).row_range(0, pass.graph.rows());
  const KeptRows kept = halo.kept(forward, halo.source_epoch(forward, made));
  if (kept.packed.rows == 0) return own;
  const PhaseTimer timer(pass.times().aggregate);
  const MatrixView sent = pass.scratch(sent_);
  pass.kernels().axpby(1, own, 0, sent);
  pass.kernels().decode_rows(kept.packed, kept.nodes, sent, {});
  return sent;
}

void AttendDynamic::pull_source_gradients(const Pass& pass, ConstMatrixView targets) const {
  Kernels& k = pass.kernels();
  const PlacedShard& shard = pass.graph.shard();
  const std::int64_t inner = pass.graph.rows(), halo = pass.graph.halo_rows();
  const std::int64_t epoch = pass.context.clock.epoch;
  const ConstMatrixView sources = pass.saved(sources_);
  const MatrixView d = pass.scratch(source_gradient_);
  DynamicAttention a = attention(pass);
  a.inner = {shard.inner(Direction::backward), sources, targets,
             dropout(pass, Direction::backward, false, epoch), true};
  if (!options_.has_halo) {
    const Site& site = pass.site(backward_site_);
    const MatrixView received = pass.scratch(halo_targets_);
    pass.context.halo.finish(site, [&](const PackedRows& packed) {
      const PhaseTimer timer(pass.times().aggregate);
      k.decode_rows(packed, nullptr, received,
                    received.col_range(options_.cols + out_, 2 * options_.heads));
    });
    const std::int64_t made = pass.context.halo.source_epoch(site, epoch);
    a.halo = {shard.halo(Direction::backward), sent_sources(pass, made), received,
              dropout(pass, Direction::backward, true, made)};
  }
  const PhaseTimer timer(pass.times().aggregate);
  k.dynamic_attention_sources(a, d.row_range(0, inner));
  if (!options_.has_halo) return;
  a.inner = {shard.halo_sources(), sources.row_range(inner, halo), targets,
             halo_source_dropout(pass)};
  k.dynamic_attention_sources(a, d.row_range(inner, halo));
}

void AttendDynamic::backward(const Pass& pass) {
  Kernels& k = pass.kernels();
  const ConstMatrixView dy = pass.gradient(y_);
  bias_gradient(pass, dy, bias_);
  const MatrixView targets = make_targets(pass, dy);
  if (!options_.has_halo) {
    const Site& site = pass.site(backward_site_);
    pass.context.halo.open(site, {targets.col_range(0, site.cols), nullptr,
                                  targets.col_range(site.cols, site.exact_cols)});
    for (const RowRange block : pass.blocks) pass.context.halo.offer(site, block);
  }
  const MatrixView d_sources = pass.scratch(source_gradient_);
  const MatrixView d_targets = pass.scratch(target_gradient_);
  const std::int64_t inner = pass.graph.rows();
  {
    // While the halo's targets travel.
    const PhaseTimer timer(pass.times().aggregate);
    k.dynamic_attention_targets(forward_attention(pass, targets), d_targets.row_range(0, inner),
                                pass.parameter_gradient(vector_));
  }
  pass.complete(vector_);
  pull_source_gradients(pass, targets);
  if (options_.has_halo) {
    // Halo nodes are targets on other ranks only.
    const MatrixView none = d_targets.row_range(inner, pass.graph.halo_rows());
    k.axpby(0, pass.saved(sources_).row_range(inner, none.rows), 0, none);
  }
  weight_gradient(pass, pass.saved(options_.x), d_sources, source_weight_, last_);
  weight_gradient(pass, pass.saved(options_.x), d_targets, target_weight_, last_);
  if (!pass.has_gradient(options_.x)) return;
  const PhaseTimer timer(pass.times().gemm);
  const MatrixView dx = pass.gradient_part(options_.x);
  k.gemm(d_sources, pass.parameter(source_weight_), true, false, dx);
  k.gemm(d_targets, pass.parameter(target_weight_), true, true, dx);
}

}  // namespace heliograph
