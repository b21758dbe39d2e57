#include "layers/drop.hpp"

namespace heliograph {

Dropout dropout_of(const DropoutMask& mask, const Pass& pass, RowRange rows) {
  Dropout d;
  if (!pass.training()) return d;
  d.threshold = mask.threshold;
  d.stream = stream_key(pass.context.seed, Purpose::dropout, pass.context.clock, mask.key);
  d.global_ids = pass.graph.shard().global_ids() + rows.begin;
  return d;
}

Drop::Drop(Declare& declare, ValueId x, const DropoutMask& mask)
    : x_(x), mask_(mask), of_input_(declare.value(x).producer < 0) {
  declare.reads(x, false);
  const Composition::Value& value = declare.value(x);
  out_ = of_input_ ? declare.writes_dropped(x) : declare.writes(value.cols, value.nonnegative);
  if (!of_input_) declare.drops(out_, mask);
  declare.row_by_row();
}

void Drop::forward(const Pass& pass, RowRange rows) {
  const FeatureView& x = pass.read(x_);
  // Inputs of the model outlive every value, so inference reads them in place.
  if (of_input_ && !pass.training()) return pass.write_view(out_, x);
  const MatrixView out = of_input_ ? pass.write_dropped(out_, x) : pass.write(out_);
  Kernels& k = pass.kernels();
  const auto drop = [&](RowRange range, const Dropout& dropout) {
    const FeatureView from = x.row_range(range);
    const MatrixView to = out.row_range(range.begin, x.is_sparse ? 0 : range.rows());
    if (!pass.training()) return k.axpby(1, from.dense, 0, to);
    if (x.is_sparse) {
      k.dropout_values(from.sparse, dropout, out.data);
    } else {
      k.dropout(from.dense, dropout, to);
    }
  };
  Dropout dropout = dropout_of(mask_, pass, rows);
  drop(rows, dropout);
  // An input may have rows of halo nodes behind those of inner nodes.
  if (!of_input_ || rows.end != pass.graph.rows() || rows.end == x.rows()) return;
  dropout.global_ids = pass.graph.shard().halo_ids(Direction::forward);
  drop({rows.end, x.rows()}, dropout);
}

void Drop::backward_rows(const Pass& pass, RowRange rows) {
  pass.kernels().dropout(pass.gradient(out_).row_range(rows), dropout_of(mask_, pass, rows),
                         pass.gradient_part(x_).row_range(rows));
}

}  // namespace heliograph
