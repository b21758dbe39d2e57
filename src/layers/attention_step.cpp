#include "layers/attention_step.hpp"

#include <utility>

namespace heliograph {

void AttentionStep::declare_output(Declare& declare) {
  last_ = !declare.value(options_.x).has_gradient;
  if (options_.bias) bias_ = declare.parameter("bias", 1, out_, ParameterKind::bias);
  dropout_key_ = site_key(declare.layer(), Direction::forward);
  declare.gathers();
  declare.pulls();
  declare.reads(options_.x, true);
  y_ = declare.writes(out_, false);
  if (options_.average || options_.bias) {
    heads_ = declare.saves(options_.cols);
  } else {
    declare.saves_output(y_);
  }
}

MatrixView AttentionStep::heads_output(const Pass& pass) const {
  return heads_.id >= 0 ? pass.saved(heads_) : pass.write(y_);
}

ConstMatrixView AttentionStep::saved_heads(const Pass& pass) const {
  return heads_.id >= 0 ? pass.saved(heads_) : pass.saved(y_).dense;
}

EdgeDropout AttentionStep::dropout(const Pass& pass, Direction direction, bool halo,
                                   std::int64_t epoch) const {
  EdgeDropout d;
  if (!pass.training() || options_.dropout == 0) return d;
  const PlacedShard& shard = pass.graph.shard();
  d.threshold = options_.dropout;
  d.stream = stream_key(pass.context.seed, Purpose::attention, {epoch, pass.context.clock.batch},
                        dropout_key_);
  d.row_ids = shard.global_ids();
  d.col_ids = halo ? shard.halo_ids(direction) : d.row_ids;
  return d;
}

EdgeDropout AttentionStep::halo_source_dropout(const Pass& pass) const {
  EdgeDropout d = dropout(pass, Direction::forward, true, pass.context.clock.epoch);
  std::swap(d.row_ids, d.col_ids);
  return d;
}

std::int64_t AttentionStep::target_epoch(const Pass& pass) const {
  return pass.context.halo.source_epoch(pass.site(backward_site_), pass.context.clock.epoch);
}

std::int64_t AttentionStep::source_epoch(const Pass& pass) const {
  return pass.context.halo.source_epoch(pass.site(forward_site_), target_epoch(pass));
}

KeptRows AttentionStep::sent_sources(const Pass& pass) const {
  return pass.context.halo.kept(pass.site(forward_site_), source_epoch(pass));
}

void AttentionStep::forward(const Pass& pass, RowRange rows) {
  if (heads_.id < 0) return;
  Kernels& k = pass.kernels();
  const ConstMatrixView heads = pass.saved(heads_).row_range(rows);
  const MatrixView y = pass.write(y_).row_range(rows);
  for (std::int64_t begin = 0; begin < options_.cols; begin += out_) {
    k.axpby(share(), heads.col_range(begin, out_), begin == 0 ? 0.0F : 1.0F, y);
  }
  if (bias_ >= 0) k.add_bias(y, pass.parameter(bias_).data);
}

}  // namespace heliograph
