#include "layers/graph_operator.hpp"

#include <cmath>

namespace heliograph {
namespace {

const float* scale_or_null(const Buffer& buffer) {
  return buffer.size() == 0 ? nullptr : buffer.as<float>().data();
}

}  // namespace

GraphOperator::GraphOperator(const Shard& shard, ModelKind kind, MemoryRoom room,
                             MemoryAccount* account)
    : shard_(shard), self_(kind == ModelKind::gcn) {
  const auto rows = static_cast<std::size_t>(shard.inner_rows);
  row_scale_ = Buffer(rows * sizeof(float), room, account);
  if (kind == ModelKind::gcn) col_scale_ = Buffer(rows * sizeof(float), room, account);
  for (std::size_t i = 0; i < rows; ++i) {
    const auto degree = static_cast<double>(shard.in_degree[i]);
    if (kind == ModelKind::gcn) {
      const auto scale = static_cast<float>(1.0 / std::sqrt(degree + 1.0));
      row_scale_.as<float>()[i] = scale;
      col_scale_.as<float>()[i] = scale;
    } else {
      row_scale_.as<float>()[i] = degree > 0 ? static_cast<float>(1.0 / degree) : 0.0F;
    }
  }
}

void GraphOperator::apply(const PassContext& pass, Direction direction, int layer,
                          ConstMatrixView x, bool nonnegative, MatrixView out,
                          AccumulatorView accumulator, FunctionRef<void()> overlap) const {
  const bool forward = direction == Direction::forward;
  const Adjacency& a = shard_.adjacency(direction);
  const float* rows = scale_or_null(forward ? row_scale_ : col_scale_);
  const float* cols = scale_or_null(forward ? col_scale_ : row_scale_);
  if (accumulator.data != nullptr) {
    accumulator = {accumulator.data, out.rows, out.cols, padded_stride<double>(out.cols), {}};
  }
  pass.halo.begin(layer, direction, x, cols, nonnegative);
  {
    const PhaseTimer timer(pass.clock.aggregate);
    pass.kernels.aggregate_inner(a.inner.view(), x, cols, self_, rows, out, accumulator);
  }
  const bool last = accumulator.data != nullptr;
  if (!last) overlap();
  pass.halo.finish(layer, direction, [&](const PackedRows& packed) {
    const PhaseTimer timer(pass.clock.aggregate);
    pass.kernels.aggregate_halo(a.halo.view(), packed, rows, out, accumulator);
  });
  if (last) overlap();
}

}  // namespace heliograph
