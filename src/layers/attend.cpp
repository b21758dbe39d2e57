#include "layers/attend.hpp"

#include "layers/gradients.hpp"

namespace heliograph {
namespace {

// Parts of the scores: of a node as target, the logarithm of its total, and the product of its
// output and the output's gradient.
constexpr int kTarget = 0, kLogTotal = 1, kProduct = 2, kParts = 3;

template <class T>
AttentionTotals<T> row_range(const AttentionTotals<T>& sums, std::int64_t begin,
                             std::int64_t rows) {
  if (sums.rows.data == nullptr) return sums;
  return {sums.positive.row_range(begin, rows), sums.other.row_range(begin, rows),
          sums.rows.row_range(begin, rows)};
}

}  // namespace

Attend::Attend(Declare& declare, const Options& options) : AttentionStep(options) {
  const std::int64_t heads = options.heads, cols = options.cols;
  weight_ =
      declare.parameter("input.weight", declare.value(options.x).cols, cols, ParameterKind::weight);
  source_ = declare.parameter("source", heads, cols / heads, ParameterKind::weight);
  target_ = declare.parameter("target", heads, cols / heads, ParameterKind::weight);
  declare_output(declare);
  const MatrixRows rows = rows_of_x();
  if (!options.has_halo) {
    forward_site_ = declare.site(Direction::forward, cols, false, heads, options.heads);
    declare.keeps_sent(forward_site_);
    backward_site_ = declare.site(Direction::backward, out_, false, kParts * heads,
                                  options.average ? 1 : options.heads);
  }
  z_ = declare.saves(cols + heads, false, rows);
  scores_ = declare.saves(kParts * heads, false, rows);
  positive_ = declare.saves(cols);
  share_ = declare.saves(heads);
  const Uses always{true, true, true}, backward{.backward = true};
  if (declare.fp64_sums()) {
    totals_ = declare.scratch(3 * heads, always, sizeof(double), rows);
    positive64_ = declare.scratch(cols, always, sizeof(double), rows);
    other64_ = declare.scratch(cols, always, sizeof(double), rows);
  } else {
    totals_ = declare.scratch(3 * heads, always, sizeof(float), rows);
    positive_gradient_ = declare.scratch(cols, backward, sizeof(float), rows);
  }
  gradient_ = declare.scratch(cols, backward, sizeof(float), rows);
  target_gradient_ = declare.scratch(heads, backward, sizeof(float), rows);
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
  a.row_scores = a.backward ? source_scores(pass) : score(pass, kTarget);
  return a;
}

void Attend::sum_inner(const Pass& pass, Direction direction, ConstMatrixView x,
                       ConstMatrixView exact, const AttentionSums& sums) const {
  const PhaseTimer timer(pass.times().aggregate);
  Attention a = attention(pass, direction);
  a.own_rows = true;
  a.dropout = dropout(pass, direction, false, pass.context.clock.epoch);
  pass.kernels().attention_inner(pass.graph.shard().inner(direction), a, x, exact, sums);
}

void Attend::sum_halo_forward(const Pass& pass, const AttentionSums& sums) const {
  Attention a = attention(pass, Direction::forward);
  a.dropout = dropout(pass, Direction::forward, true, pass.context.clock.epoch);
  const auto sum = [&](const PackedRows& packed) {
    const PhaseTimer timer(pass.times().aggregate);
    pass.kernels().attention_halo(pass.graph.shard().halo(Direction::forward), a, packed, sums);
  };
  if (!options_.has_halo) return pass.context.halo.finish(pass.site(forward_site_), sum);
  if (pass.graph.halo_rows() == 0) return;
  // As another rank would send them at 32 bits.
  const MatrixView all = pass.saved(z_);
  PackedRows packed(reinterpret_cast<const std::byte*>(all.row(pass.graph.rows())),
                    pass.graph.halo_rows(), options_.cols, 0, {32, false, options_.heads});
  packed.stride = static_cast<std::size_t>(all.stride) * sizeof(float);
  sum(packed);
}

void Attend::sum_halo_backward(const Pass& pass, const AttentionSums& sums) const {
  // Halo targets may have computed what they sent in an earlier epoch, and from rounded rows.
  Halo& halo = pass.context.halo;
  const std::int64_t epoch = pass.context.clock.epoch;
  const Site &site = pass.site(backward_site_), &forward = pass.site(forward_site_);
  const std::int64_t made = halo.source_epoch(site, epoch);
  const std::int64_t used = halo.source_epoch(forward, made);
  const KeptRows kept = halo.kept(forward, used);
  Attention a = attention(pass, Direction::backward);
  a.dropout = dropout(pass, Direction::backward, true, made);
  if (used != epoch) {
    pass.kernels().decode_rows(kept.packed, kept.nodes, {}, source_scores(pass));
  }
  const auto count_rounding = [&](float sign) {
    if (kept.packed.rows == 0) return;
    const PhaseTimer timer(pass.times().aggregate);
    pass.kernels().attention_rounding(kept, z(pass), options_.heads, sign * share(), options_.slope,
                                      sums);
  };
  count_rounding(-1);
  halo.finish(site, [&](const PackedRows& packed) {
    const PhaseTimer timer(pass.times().aggregate);
    pass.kernels().attention_halo(pass.graph.shard().halo(Direction::backward), a, packed, sums);
  });
  count_rounding(1);
}

void Attend::sum_halo_sources(const Pass& pass, ConstMatrixView dy,
                              const AttentionSums& sums) const {
  const PhaseTimer timer(pass.times().aggregate);
  const std::int64_t inner = pass.graph.rows(), halo = pass.graph.halo_rows();
  Attention a = attention(pass, Direction::backward);
  a.row_scores = source_scores(pass).row_range(inner, halo);
  a.dropout = halo_source_dropout(pass);
  pass.kernels().attention_inner(
      pass.graph.shard().halo_sources(), a, dy, pass.saved(scores_),
      {row_range(sums.f32, inner, halo), row_range(sums.f64, inner, halo)});
}

void Attend::offer(const Pass& pass, RowRange rows) {
  const RowRange offered = rows;
  if (options_.has_halo && rows.end == pass.graph.rows()) rows.end += pass.graph.halo_rows();
  const MatrixView made = z(pass).row_range(rows);
  {
    const PhaseTimer timer(pass.times().gemm);
    multiply(pass.kernels(), pass.read(options_.x).row_range(rows), pass.parameter(weight_), false,
             nullptr, made);
  }
  pass.kernels().attention_scores(made, pass.parameter(source_).data, pass.parameter(target_).data,
                                  source_scores(pass).row_range(rows),
                                  score(pass, kTarget).row_range(rows));
  if (options_.has_halo) return;
  const Site& site = pass.site(forward_site_);
  if (rows.begin == 0) pass.context.halo.open(site, {z(pass), nullptr, source_scores(pass)});
  pass.context.halo.offer(site, offered);
}

void Attend::gather(const Pass& pass) {
  const MatrixView out = heads_output(pass), positive = pass.saved(positive_);
  const AttentionSums totals = sums(pass, positive, out);
  sum_inner(pass, Direction::forward, z(pass), source_scores(pass), totals);
  sum_halo_forward(pass, totals);
  const bool training = pass.training();
  pass.kernels().attention_output(totals, options_.heads, out, training ? positive : MatrixView{},
                                  training ? pass.saved(share_) : MatrixView{},
                                  training ? score(pass, kLogTotal) : MatrixView{});
}

void Attend::backward(const Pass& pass) {
  Kernels& k = pass.kernels();
  const ConstMatrixView dy = pass.gradient(y_);
  bias_gradient(pass, dy, bias_);
  const MatrixView dt = pass.scratch(target_gradient_);
  k.attention_target_gradient(dy, share(), options_.slope, saved_heads(pass), pass.saved(positive_),
                              pass.saved(share_), score(pass, kProduct), dt);
  const ConstMatrixView exact = pass.saved(scores_);
  const MatrixView dz = pass.scratch(gradient_);
  const bool fp64 = positive64_.id >= 0;
  const AttentionSums totals =
      sums(pass, fp64 ? MatrixView{} : pass.scratch(positive_gradient_), dz);
  if (options_.has_halo) {
    sum_inner(pass, Direction::backward, dy, exact, totals);
    sum_halo_sources(pass, dy, totals);
    // Halo nodes are targets on other ranks only.
    const std::int64_t inner = pass.graph.rows(), halo = pass.graph.halo_rows();
    k.axpby(0, source_scores(pass).row_range(inner, halo), 0, dt.row_range(inner, halo));
  } else {
    const Site& site = pass.site(backward_site_);
    pass.context.halo.open(site, {dy, nullptr, exact});
    for (const RowRange block : pass.blocks) pass.context.halo.offer(site, block);
    sum_inner(pass, Direction::backward, dy, exact, totals);
    sum_halo_backward(pass, totals);
  }
  k.attention_source_gradient(z(pass), pass.parameter(source_).data, pass.parameter(target_).data,
                              share(), options_.slope, totals, dt, dz,
                              pass.parameter_gradient(source_), pass.parameter_gradient(target_));
  pass.complete(source_);
  pass.complete(target_);
  weight_gradient(pass, pass.saved(options_.x), dz, weight_, last_);
  if (!pass.has_gradient(options_.x)) return;
  const PhaseTimer timer(pass.times().gemm);
  k.gemm(dz, pass.parameter(weight_), true, false, pass.gradient_part(options_.x));
}

}  // namespace heliograph
