#include "layers/propagate.hpp"

namespace heliograph {

Propagate::Propagate(Declare& declare, const Options& options) : options_(options) {
  const Composition::Value& x = declare.value(options.x);
  const std::int64_t cols = x.cols;
  const bool has_gradient = x.has_gradient;
  const bool nonnegative = x.nonnegative;
  declare.gathers();
  declare.reads(options.x, false);
  if (options.root != kNoValue && options.root != options.x) declare.reads(options.root, false);
  y_ = declare.writes(
      cols, nonnegative && (options.root == kNoValue || declare.value(options.root).nonnegative));
  forward_site_ = declare.site(Direction::forward, cols, nonnegative);
  declare.sends(forward_site_, options.x);
  if (has_gradient) {
    backward_site_ = declare.site(Direction::backward, cols, false);
    declare.pulls();
    declare.sends(backward_site_, options.x);
    if (options.root != kNoValue) shared_ = declare.scratch(cols, {.backward = true});
  }
  sum_scratch_ = declare.sum_scratch(cols, has_gradient);
}

void Propagate::offer(const Pass& pass, RowRange rows) {
  pass.graph.offer(pass.context, pass.site(forward_site_), pass.read(options_.x).dense, rows);
}

void Propagate::gather(const Pass& pass) {
  pass.graph.begin_sum(pass.context, pass.site(forward_site_), pass.read(options_.x).dense,
                       pass.write(y_), pass.scratch(sum_scratch_), [] {});
}

void Propagate::forward(const Pass& pass, RowRange rows) {
  const MatrixView y = pass.write(y_);
  pass.graph.add_halo(pass.context, pass.site(forward_site_), y, rows);
  if (options_.root == kNoValue) return;
  pass.kernels().axpby(1 - options_.share, pass.read(options_.root).row_range(rows).dense,
                       options_.share, y.row_range(rows));
}

ConstMatrixView Propagate::pulled(const Pass& pass) const {
  if (options_.root == kNoValue) return pass.gradient(y_);
  return pass.scratch(shared_);
}

void Propagate::backward_offer(const Pass& pass, RowRange rows) {
  if (options_.root != kNoValue) {
    pass.kernels().axpby(options_.share, pass.gradient(y_).row_range(rows), 0,
                         pass.scratch(shared_).row_range(rows));
  }
  pass.graph.offer(pass.context, pass.site(backward_site_), pulled(pass), rows);
}

void Propagate::backward(const Pass& pass) {
  if (backward_site_ < 0) return;
  pass.graph.begin_sum(pass.context, pass.site(backward_site_), pulled(pass),
                       pass.gradient_part(options_.x), pass.scratch(sum_scratch_), [] {});
}

void Propagate::backward_rows(const Pass& pass, RowRange rows) {
  const bool same = options_.root == options_.x;
  if (backward_site_ >= 0) {
    pass.graph.add_halo(pass.context, pass.site(backward_site_), pass.gradient_part(options_.x),
                        rows);
  }
  if (options_.root == kNoValue || !pass.has_gradient(options_.root)) return;
  pass.kernels().axpby(1 - options_.share, pass.gradient(y_).row_range(rows), same ? 1.0F : 0.0F,
                       pass.gradient_part(options_.root).row_range(rows));
}

}  // namespace heliograph
