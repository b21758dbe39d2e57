#include "layers/attend.hpp"

#include "layers/gradients.hpp"

namespace heliograph {
namespace {

// Parts of the scores: of a node as source and as target, the logarithm of its total, and the
// product of its output and the output's gradient.
constexpr int kSource = 0, kTarget = 1, kLogTotal = 2, kProduct = 3, kParts = 4;

}  // namespace

Attend::Attend(Declare& declare, const Options& options)
    : options_(options),
      cols_(declare.value(options.z).cols),
      out_(options.average ? cols_ / options.heads : cols_) {
  const std::int64_t heads = options.heads, head_cols = cols_ / heads;
  source_ = declare.parameter("source", heads, head_cols, ParameterKind::weight);
  target_ = declare.parameter("target", heads, head_cols, ParameterKind::weight);
  if (options.bias) bias_ = declare.parameter("bias", 1, out_, ParameterKind::bias);
  declare.gathers();
  declare.reads(options.z, true);
  y_ = declare.writes(out_, false);
  forward_site_ = declare.site(Direction::forward, cols_, false, heads, options.heads);
  backward_site_ = declare.site(Direction::backward, out_, false, 3 * heads,
                                options.average ? 1 : options.heads);
  scores_ = declare.saves(kParts * heads);
  positive_ = declare.saves(cols_);
  share_ = declare.saves(heads);
  if (options.average || options.bias) {
    heads_ = declare.saves(cols_);
  } else {
    declare.saves_output(y_);
  }
  const Uses always{true, true, true};
  if (declare.fp64_sums()) {
    totals_ = declare.scratch(3 * heads, always, sizeof(double));
    positive64_ = declare.scratch(cols_, always, sizeof(double));
    other64_ = declare.scratch(cols_, always, sizeof(double));
  } else {
    totals_ = declare.scratch(3 * heads, always);
    positive_gradient_ = declare.scratch(cols_, {.backward = true});
  }
  target_gradient_ = declare.scratch(heads, {.backward = true});
}

MatrixView Attend::score(const Pass& pass, int part) const {
  return pass.saved(scores_).col_range(std::int64_t{part} * options_.heads, options_.heads);
}

MatrixView Attend::heads_output(const Pass& pass) const {
  return heads_.id >= 0 ? pass.saved(heads_) : pass.write(y_);
}

AttentionSums Attend::sums(const Pass& pass, MatrixView positive, MatrixView other) const {
  AttentionSums sums;
  if (positive64_.id >= 0) {
    sums.f64 = {pass.scratch<double>(positive64_), pass.scratch<double>(other64_),
                pass.scratch<double>(totals_)};
  } else {
    sums.f32 = {positive, other, pass.scratch(totals_)};
  }
  return sums;
}

Attention Attend::attention(const Pass& pass, Direction direction) const {
  Attention a;
  a.heads = options_.heads;
  a.slope = options_.slope;
  a.backward = direction == Direction::backward;
  a.shared = a.backward && options_.average;
  a.row_scores = score(pass, a.backward ? kSource : kTarget);
  return a;
}

EdgeDropout Attend::dropout(const Pass& pass, Direction direction, bool halo,
                            std::int64_t epoch) const {
  EdgeDropout d;
  if (!pass.training() || options_.dropout == 0) return d;
  const PlacedShard& shard = pass.graph.shard();
  d.threshold = options_.dropout;
  d.stream = stream_key(pass.context.seed, Purpose::attention, {epoch, pass.context.clock.batch},
                        pass.site(forward_site_).key);
  d.row_ids = shard.global_ids();
  d.col_ids = halo ? shard.halo_ids(direction) : d.row_ids;
  return d;
}

void Attend::sum(const Pass& pass, const Site& site, Attention a, ConstMatrixView x,
                 ConstMatrixView exact, const AttentionSums& sums) const {
  const PlacedShard& shard = pass.graph.shard();
  const std::int64_t epoch = pass.context.clock.epoch;
  {
    const PhaseTimer timer(pass.times().aggregate);
    a.own_rows = true;
    a.dropout = dropout(pass, site.direction, false, epoch);
    pass.kernels().attention_inner(shard.inner(site.direction), a, x, exact, sums);
  }
  a.own_rows = false;
  // Halo targets may have computed what they sent in an earlier epoch.
  Halo& halo = pass.context.halo;
  std::int64_t made = epoch;
  if (a.backward) {
    made = halo.source_epoch(site, epoch);
    const Site& forward = pass.site(forward_site_);
    const std::int64_t used = halo.source_epoch(forward, made);
    if (used != epoch) a.row_scores = halo.own_exact(forward, used);
  }
  a.dropout = dropout(pass, site.direction, true, made);
  halo.finish(site, [&](const PackedRows& packed) {
    const PhaseTimer timer(pass.times().aggregate);
    pass.kernels().attention_halo(shard.halo(site.direction), a, packed, sums);
  });
}

void Attend::offer(const Pass& pass, RowRange rows) {
  const ConstMatrixView z = pass.read(options_.z).dense;
  pass.kernels().attention_scores(z.row_range(rows.begin, rows.rows()),
                                  pass.parameter(source_).data, pass.parameter(target_).data,
                                  score(pass, kSource).row_range(rows.begin, rows.rows()),
                                  score(pass, kTarget).row_range(rows.begin, rows.rows()));
  const Site& site = pass.site(forward_site_);
  if (rows.begin == 0) pass.context.halo.open(site, {z, nullptr, score(pass, kSource)});
  pass.context.halo.offer(site, rows);
}

void Attend::gather(const Pass& pass) {
  const MatrixView out = heads_output(pass), positive = pass.saved(positive_);
  const AttentionSums totals = sums(pass, positive, out);
  const Site& site = pass.site(forward_site_);
  if (pass.training()) {
    const MatrixView kept = pass.context.halo.own_exact(site, pass.context.clock.epoch);
    if (kept.data != nullptr) pass.kernels().axpby(1, score(pass, kSource), 0, kept);
  }
  sum(pass, site, attention(pass, Direction::forward), pass.read(options_.z).dense,
      score(pass, kSource), totals);
  const bool training = pass.training();
  pass.kernels().attention_output(totals, options_.heads, out, training ? positive : MatrixView{},
                                  training ? pass.saved(share_) : MatrixView{},
                                  training ? score(pass, kLogTotal) : MatrixView{});
}

void Attend::forward(const Pass& pass, RowRange rows) {
  if (heads_.id < 0) return;
  Kernels& k = pass.kernels();
  const ConstMatrixView heads = pass.saved(heads_).row_range(rows.begin, rows.rows());
  const MatrixView y = pass.write(y_).row_range(rows.begin, rows.rows());
  const float share = options_.average ? 1.0F / static_cast<float>(options_.heads) : 1.0F;
  for (std::int64_t begin = 0; begin < cols_; begin += out_) {
    k.axpby(share, heads.col_range(begin, out_), begin == 0 ? 0.0F : 1.0F, y);
  }
  if (bias_ >= 0) k.add_bias(y, pass.parameter(bias_).data);
}

void Attend::backward(const Pass& pass) {
  Kernels& k = pass.kernels();
  const ConstMatrixView dy = pass.gradient(y_);
  bias_gradient(pass, dy, bias_);
  const ConstMatrixView out = heads_.id >= 0 ? pass.saved(heads_) : pass.saved(y_).dense;
  const float factor = options_.average ? 1.0F / static_cast<float>(options_.heads) : 1.0F;
  const MatrixView dt = pass.scratch(target_gradient_);
  k.attention_target_gradient(dy, factor, options_.slope, out, pass.saved(positive_),
                              pass.saved(share_), score(pass, kProduct), dt);
  const Site& site = pass.site(backward_site_);
  const ConstMatrixView exact = pass.saved(scores_).col_range(
      std::int64_t{kTarget} * options_.heads, 3 * std::int64_t{options_.heads});
  pass.context.halo.open(site, {dy, nullptr, exact});
  for (const RowRange block : pass.blocks) pass.context.halo.offer(site, block);
  const MatrixView dz = pass.gradient_part(options_.z);
  const bool fp64 = positive64_.id >= 0;
  const AttentionSums totals =
      sums(pass, fp64 ? MatrixView{} : pass.scratch(positive_gradient_), dz);
  sum(pass, site, attention(pass, Direction::backward), dy, exact, totals);
  k.attention_source_gradient(pass.saved(options_.z).dense, pass.parameter(source_).data,
                              pass.parameter(target_).data, factor, options_.slope, totals, dt, dz,
                              pass.parameter_gradient(source_), pass.parameter_gradient(target_));
  pass.complete(source_);
  pass.complete(target_);
}

}  // namespace heliograph
