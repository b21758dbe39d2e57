#include "layers/drop_features.hpp"

namespace heliograph {

Dropout DropoutMask::of(const Pass& pass, RowRange rows) const {
  Dropout d;
  if (!pass.training()) return d;
  d.threshold = threshold;
  d.stream = stream_key(pass.context.seed, Purpose::dropout, pass.context.clock, key);
  d.global_ids = pass.graph.shard().global_ids() + rows.begin;
  return d;
}

DropFeatures::DropFeatures(Declare& declare, ValueId input, const DropoutMask& mask)
    : input_(input), mask_(mask) {
  declare.reads(input, false);
  out_ = declare.writes_dropped(input);
}

void DropFeatures::forward(const Pass& pass, RowRange rows) {
  const FeatureView& x = pass.read(input_);
  if (!pass.training()) return pass.write_view(out_, x);
  const MatrixView out = pass.write_dropped(out_, x);
  const FeatureView from = x.row_range(rows);
  const Dropout dropout = mask_.of(pass, rows);
  if (x.is_sparse) {
    pass.kernels().dropout_values(from.sparse, dropout, out.data);
  } else {
    pass.kernels().dropout(from.dense, dropout, out.row_range(rows.begin, rows.rows()));
  }
}

}  // namespace heliograph
