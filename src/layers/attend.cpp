#include "layers/attend.hpp"

#include <optional>

#include "layers/gradients.hpp"

namespace heliograph {
namespace {

// Parts of the scores: of a node as target, the logarithm of its total, and the product of its
// output and the output's gradient.
constexpr int kTarget = 0, kLogTotal = 1, kProduct = 2, kParts = 3;

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

AttentionSums Attend::sums(const Pass& pass, Direction direction) const {
  AttentionSums sums;
  const bool forward = direction == Direction::forward;
  if (positive64_.id >= 0) {
    sums.f64 = {pass.scratch<double>(positive64_), pass.scratch<double>(other64_),
                pass.scratch<double>(totals_)};
  } else {
    sums.f32 = {forward ? pass.saved(positive_) : pass.scratch(positive_gradient_),
                forward ? heads_output(pass) : pass.scratch(gradient_), pass.scratch(totals_)};
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
                       ConstMatrixView exact) const {
  const PhaseTimer timer(pass.times().aggregate);
  Attention a = attention(pass, direction);
  a.own_rows = true;
  a.dropout = dropout(pass, direction, false, pass.context.clock.epoch);
  pass.kernels().attention_inner(pass.graph.shard().inner(direction), a, x, exact,
                                 sums(pass, direction));
}

PackedRows Attend::own_halo(const Pass& pass) const {
  const MatrixView all = pass.saved(z_);
  PackedRows packed(reinterpret_cast<const std::byte*>(all.row(pass.graph.rows())),
                    pass.graph.halo_rows(), options_.cols, 0, {32, false, options_.heads});
  packed.stride = static_cast<std::size_t>(all.stride) * sizeof(float);
  return packed;
}

void Attend::add_halo(const Pass& pass, Direction direction, std::int64_t epoch,
                      RowRange rows) const {
  const int site = direction == Direction::forward ? forward_site_ : backward_site_;
  const std::optional<PackedRows> at_hand =
      options_.has_halo ? own_halo(pass) : pass.context.halo.received(pass.site(site));
  if (!at_hand) {
    if (rows.begin > 0) return;  // The first range has added all rows.
    rows = {0, pass.graph.rows()};
  }
  Attention a = attention(pass, direction);
  a.dropout = dropout(pass, direction, true, epoch);
  const CsrView entries = pass.graph.shard().halo(direction).row_range(rows);
  const AttentionSums to = sums(pass, direction).row_range(rows);
  const auto add = [&](const PackedRows& packed) {
    if (packed.rows == 0) return;
    const PhaseTimer timer(pass.times().aggregate);
    pass.kernels().attention_halo(entries, a.row_range(rows), packed, to);
  };
  if (at_hand) {
    add(*at_hand);
  } else {
    pass.context.halo.finish(pass.site(site), add);
  }
}

void Attend::add_rounding(const Pass& pass, float sign, RowRange rows) const {
  const KeptRows kept = sent_sources(pass);
  if (kept.packed.rows == 0) return;
  const PhaseTimer timer(pass.times().aggregate);
  pass.kernels().attention_rounding(kept, rows, z(pass), options_.heads, sign * share(),
                                    options_.slope, sums(pass, Direction::backward));
}

void Attend::sum_halo_sources(const Pass& pass) const {
  const PhaseTimer timer(pass.times().aggregate);
  const RowRange halo{pass.graph.rows(), pass.graph.rows() + pass.graph.halo_rows()};
  Attention a = attention(pass, Direction::backward);
  a.row_scores = source_scores(pass).row_range(halo);
  a.dropout = halo_source_dropout(pass);
  pass.kernels().attention_inner(pass.graph.shard().halo_sources(), a, pass.gradient(y_),
                                 pass.saved(scores_),
                                 sums(pass, Direction::backward).row_range(halo));
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
  sum_inner(pass, Direction::forward, z(pass), source_scores(pass));
}

void Attend::forward(const Pass& pass, RowRange rows) {
  add_halo(pass, Direction::forward, pass.context.clock.epoch, rows);
  const auto saved = [&](MatrixView m) {
    return pass.training() ? m.row_range(rows) : MatrixView{};
  };
  pass.kernels().attention_output(sums(pass, Direction::forward).row_range(rows), options_.heads,
                                  heads_output(pass).row_range(rows), saved(pass.saved(positive_)),
                                  saved(pass.saved(share_)), saved(score(pass, kLogTotal)));
  AttentionStep::forward(pass, rows);
}

void Attend::backward_offer(const Pass& pass, RowRange rows) {
  const ConstMatrixView dy = pass.gradient(y_);
  pass.kernels().attention_target_gradient(
      dy.row_range(rows), share(), options_.slope, saved_heads(pass).row_range(rows),
      pass.saved(positive_).row_range(rows), pass.saved(share_).row_range(rows),
      score(pass, kProduct).row_range(rows), pass.scratch(target_gradient_).row_range(rows));
  if (options_.has_halo) return;
  const Site& site = pass.site(backward_site_);
  if (rows.begin == 0) pass.context.halo.open(site, {dy, nullptr, pass.saved(scores_)});
  pass.context.halo.offer(site, rows);
}

void Attend::backward(const Pass& pass) {
  const ConstMatrixView dy = pass.gradient(y_);
  bias_gradient(pass, dy, bias_);
  sum_inner(pass, Direction::backward, dy, pass.saved(scores_));
  if (options_.has_halo) return sum_halo_sources(pass);
  // Halo targets may have computed what they sent in an earlier epoch, and from rounded rows.
  if (source_epoch(pass) != pass.context.clock.epoch) {
    const KeptRows kept = sent_sources(pass);
    pass.kernels().decode_rows(kept.packed, kept.nodes, {}, source_scores(pass));
  }
  add_rounding(pass, -1, {0, pass.graph.rows()});
}

void Attend::backward_rows(const Pass& pass, RowRange rows) {
  if (options_.has_halo) return;
  add_halo(pass, Direction::backward, target_epoch(pass), rows);
  add_rounding(pass, 1, rows);
  source_gradient(pass, rows);
  if (!pass.has_gradient(options_.x)) return;
  const PhaseTimer timer(pass.times().gemm);
  pass.kernels().gemm(pass.scratch(gradient_).row_range(rows), pass.parameter(weight_), true, false,
                      pass.gradient_part(options_.x).row_range(rows));
}

void Attend::source_gradient(const Pass& pass, RowRange rows) const {
  pass.kernels().attention_source_gradient(
      z(pass).row_range(rows), pass.parameter(source_).data, pass.parameter(target_).data, share(),
      options_.slope, sums(pass, Direction::backward).row_range(rows),
      pass.scratch(target_gradient_).row_range(rows), pass.scratch(gradient_).row_range(rows),
      rows.begin > 0, pass.parameter_gradient(source_), pass.parameter_gradient(target_));
}

void Attend::end_backward(const Pass& pass) {
  const MatrixView dz = pass.scratch(gradient_);
  if (options_.has_halo) {
    // Halo nodes are targets on other ranks only.
    const std::int64_t inner = pass.graph.rows(), halo = pass.graph.halo_rows();
    pass.kernels().axpby(0, source_scores(pass).row_range(inner, halo), 0,
                         pass.scratch(target_gradient_).row_range(inner, halo));
    source_gradient(pass, {0, dz.rows});
  }
  pass.complete(source_);
  pass.complete(target_);
  weight_gradient(pass, pass.saved(options_.x), dz, weight_, last_);
}

}  // namespace heliograph
