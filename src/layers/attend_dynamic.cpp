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
}

void AttendDynamic::forward(const Pass& pass, RowRange rows) {
  {
    const PhaseTimer timer(pass.times().aggregate);
    pass.kernels().dynamic_attention(
        forward_attention(pass, pass.saved(targets_)).row_range(rows),
        heads_output(pass).row_range(rows),
        pass.training() ? pass.saved(log_total_).row_range(rows) : MatrixView{});
  }
  AttentionStep::forward(pass, rows);
}

void AttendDynamic::make_targets(const Pass& pass, RowRange rows) const {
  const PhaseTimer timer(pass.times().aggregate);
  Kernels& k = pass.kernels();
  const std::int64_t cols = options_.cols, heads = options_.heads;
  const MatrixView all = pass.scratch(backward_targets_).row_range(rows);
  const MatrixView d = all.col_range(cols, out_);
  k.axpby(1, pass.saved(targets_).row_range(rows), 0, all.col_range(0, cols));
  k.axpby(share(), ConstMatrixView(pass.gradient(y_)).row_range(rows), 0, d);
  k.axpby(1, pass.saved(log_total_).row_range(rows), 0, all.col_range(cols + out_, heads));
  k.attention_target_gradient(d, 1, 1, saved_heads(pass).row_range(rows), {}, {},
                              all.col_range(cols + out_ + heads, heads), {});
}

void AttendDynamic::backward_offer(const Pass& pass, RowRange rows) {
  make_targets(pass, rows);
  if (options_.has_halo) return;
  const Site& site = pass.site(backward_site_);
  const MatrixView targets = pass.scratch(backward_targets_);
  if (rows.begin == 0) {
    pass.context.halo.open(site, {targets.col_range(0, site.cols), nullptr,
                                  targets.col_range(site.cols, site.exact_cols)});
  }
  pass.context.halo.offer(site, rows);
}

void AttendDynamic::backward(const Pass& pass) {
  bias_gradient(pass, pass.gradient(y_), bias_);
  {
    // While the halo's targets travel.
    const PhaseTimer timer(pass.times().aggregate);
    pass.kernels().dynamic_attention_targets(
        forward_attention(pass, pass.scratch(backward_targets_)),
        pass.scratch(target_gradient_).row_range(0, pass.graph.rows()),
        pass.parameter_gradient(vector_));
  }
  pass.complete(vector_);
}

void AttendDynamic::receive_targets(const Pass& pass) const {
  Kernels& k = pass.kernels();
  const MatrixView received = pass.scratch(halo_targets_);
  pass.context.halo.finish(pass.site(backward_site_), [&](const PackedRows& packed) {
    const PhaseTimer timer(pass.times().aggregate);
    k.decode_rows(packed, nullptr, received,
                  received.col_range(options_.cols + out_, 2 * options_.heads));
  });
  const KeptRows kept = sent_sources(pass);
  if (kept.packed.rows == 0) return;
  const PhaseTimer timer(pass.times().aggregate);
  const MatrixView sent = pass.scratch(sent_);
  k.axpby(1, pass.saved(sources_).row_range(0, pass.graph.rows()), 0, sent);
  k.decode_rows(kept.packed, kept.nodes, sent, {});
}

void AttendDynamic::backward_rows(const Pass& pass, RowRange rows) {
  const PlacedShard& shard = pass.graph.shard();
  const ConstMatrixView sources = pass.saved(sources_);
  const MatrixView d = pass.scratch(source_gradient_);
  DynamicAttention a = attention(pass);
  a.inner = {shard.inner(Direction::backward), sources, pass.scratch(backward_targets_),
             dropout(pass, Direction::backward, false, pass.context.clock.epoch), true};
  if (!options_.has_halo) {
    if (rows.begin == 0) receive_targets(pass);
    const bool differ = sent_sources(pass).packed.rows > 0;
    a.halo = {shard.halo(Direction::backward),
              differ ? ConstMatrixView(pass.scratch(sent_)) : sources, pass.scratch(halo_targets_),
              dropout(pass, Direction::backward, true, target_epoch(pass))};
  }
  {
    const PhaseTimer timer(pass.times().aggregate);
    pass.kernels().dynamic_attention_sources(a.row_range(rows), d.row_range(rows));
  }
  if (!pass.has_gradient(options_.x)) return;
  const PhaseTimer timer(pass.times().gemm);
  const MatrixView dx = pass.gradient_part(options_.x).row_range(rows);
  const MatrixView d_targets = pass.scratch(target_gradient_).row_range(rows);
  pass.kernels().gemm(d.row_range(rows), pass.parameter(source_weight_), true, false, dx);
  pass.kernels().gemm(d_targets, pass.parameter(target_weight_), true, true, dx);
}

void AttendDynamic::end_backward(const Pass& pass) {
  const MatrixView d_sources = pass.scratch(source_gradient_);
  const MatrixView d_targets = pass.scratch(target_gradient_);
  if (options_.has_halo) {
    const PhaseTimer timer(pass.times().aggregate);
    const std::int64_t inner = pass.graph.rows(), halo = pass.graph.halo_rows();
    DynamicAttention a = attention(pass);
    a.inner = {pass.graph.shard().halo_sources(), pass.saved(sources_).row_range(inner, halo),
               pass.scratch(backward_targets_), halo_source_dropout(pass)};
    pass.kernels().dynamic_attention_sources(a, d_sources.row_range(inner, halo));
    // Halo nodes are targets on other ranks only.
    const MatrixView none = d_targets.row_range(inner, halo);
    pass.kernels().axpby(0, pass.saved(sources_).row_range(inner, halo), 0, none);
  }
  weight_gradient(pass, pass.saved(options_.x), d_sources, source_weight_, last_);
  weight_gradient(pass, pass.saved(options_.x), d_targets, target_weight_, last_);
}

}  // namespace heliograph
