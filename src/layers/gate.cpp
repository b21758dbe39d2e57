#include "layers/gate.hpp"

namespace heliograph {

Gate::Gate(Declare& declare, const std::vector<ValueId>& parts) : parts_(parts) {
  const std::int64_t cols = declare.value(parts.front()).cols;
  score_weight_ = declare.parameter("score_weight", cols, 1, ParameterKind::weight);
  bool nonnegative = true;
  for (const ValueId v : parts) {
    nonnegative = nonnegative && declare.value(v).nonnegative;
    declare.reads(v, true);
  }
  out_ = declare.writes(cols, nonnegative);
  scores_ = declare.saves(static_cast<std::int64_t>(parts.size()), true);
}

void Gate::forward(const Pass& pass, RowRange rows) {
  const MatrixView out = pass.write(out_).row_range(rows);
  const MatrixView scores = pass.saved(scores_);
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    pass.kernels().gate_forward(pass.read(parts_[k]).row_range(rows).dense,
                                pass.parameter(score_weight_).data,
                                scores.row(static_cast<std::int64_t>(k)) + rows.begin, k > 0, out);
  }
}

void Gate::backward(const Pass& pass) {
  const ConstMatrixView d = pass.gradient(out_);
  const MatrixView scores = pass.saved(scores_);
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    pass.kernels().gate_backward(pass.saved(parts_[k]).dense, pass.parameter(score_weight_).data,
                                 scores.row(static_cast<std::int64_t>(k)), d,
                                 pass.gradient_part(parts_[k]), k > 0,
                                 pass.parameter_gradient(score_weight_));
  }
  pass.complete(score_weight_);
}

}  // namespace heliograph
