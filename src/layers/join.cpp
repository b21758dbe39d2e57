#include "layers/join.hpp"

namespace heliograph {

Join::Join(Declare& declare, const std::vector<ValueId>& parts, JumpingKnowledge how)
    : parts_(parts), how_(how) {
  std::int64_t cols = 0;
  bool nonnegative = true;
  for (const ValueId v : parts) {
    const Composition::Value& value = declare.value(v);
    cols = how == JumpingKnowledge::concat ? cols + value.cols : value.cols;
    nonnegative = nonnegative && value.nonnegative;
    declare.reads(v, how == JumpingKnowledge::max);
  }
  out_ = declare.writes(cols, nonnegative);
  declare.row_by_row();
  if (how == JumpingKnowledge::max) declare.saves_output(out_);
}

void Join::forward(const Pass& pass, RowRange rows) {
  Kernels& k = pass.kernels();
  const MatrixView out = pass.write(out_).row_range(rows);
  std::int64_t at = 0;
  for (const ValueId v : parts_) {
    const ConstMatrixView x = pass.read(v).row_range(rows).dense;
    if (how_ == JumpingKnowledge::concat) {
      k.axpby(1, x, 0, out.col_range(at, x.cols));
      at += x.cols;
    } else if (v == parts_.front() || how_ == JumpingKnowledge::sum) {
      k.axpby(1, x, v == parts_.front() ? 0.0F : 1.0F, out);
    } else {
      k.max_forward(x, out);
    }
  }
}

void Join::backward_rows(const Pass& pass, RowRange rows) {
  Kernels& k = pass.kernels();
  const MatrixView d = pass.gradient(out_).row_range(rows);
  std::int64_t at = 0;
  for (const ValueId v : parts_) {
    const MatrixView dx = pass.gradient_part(v).row_range(rows);
    if (how_ == JumpingKnowledge::max) {
      k.max_backward(pass.saved(v).dense.row_range(rows), pass.saved(out_).dense.row_range(rows), d,
                     dx);
    } else {
      k.axpby(1, d.col_range(at, dx.cols), 0, dx);
      if (how_ == JumpingKnowledge::concat) at += dx.cols;
    }
  }
}

}  // namespace heliograph
