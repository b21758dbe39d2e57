#include "layers/propagate.hpp"

#include "layers/gradients.hpp"

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
    declare.sends(backward_site_, options.x);
    if (options.root != kNoValue) shared_ = declare.scratch(cols, {.backward = true});
  }
  sum_scratch_ = declare.sum_scratch(cols, has_gradient);
}

void Propagate::offer(const Pass& pass, RowRange rows) {
  pass.graph.offer(pass.context, pass.site(forward_site_), pass.read(options_.x).dense, rows);
}

void Propagate::gather(const Pass& pass) {
  const MatrixView y = pass.write(y_);
  pass.graph.sum(pass.context, pass.site(forward_site_), pass.read(options_.x).dense, y,
                 pass.scratch(sum_scratch_), [] {});
  if (options_.root == kNoValue) return;
  pass.kernels().axpby(1 - options_.share, pass.read(options_.root).dense, options_.share, y);
}

void Propagate::backward(const Pass& pass) {
  Kernels& k = pass.kernels();
  const MatrixView dy = pass.gradient(y_);
  const bool has_root = options_.root != kNoValue;
  const bool same = options_.root == options_.x;
  if (has_root && !same && pass.has_gradient(options_.root)) {
    k.axpby(1 - options_.share, dy, 0, pass.gradient_part(options_.root));
  }
  if (backward_site_ < 0) return;
  const ConstMatrixView rows = has_root ? pass.scratch(shared_) : dy;
  const MatrixView dx = pass.gradient_part(options_.x);
  pull(
      pass, pass.site(backward_site_), rows,
      [&](RowRange r) {
        if (!has_root) return;
        k.axpby(options_.share, dy.row_range(r.begin, r.rows()), 0,
                pass.scratch(shared_).row_range(r.begin, r.rows()));
      },
      dx, sum_scratch_, [] {});
  if (same) k.axpby(1 - options_.share, dy, 1, dx);
}

}  // namespace heliograph
