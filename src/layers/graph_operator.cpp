#include "layers/graph_operator.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace heliograph {
namespace {

const float* scale_or_null(const Buffer& buffer) {
  return buffer.size() == 0 ? nullptr : buffer.as<float>().data();
}

}  // namespace

GraphOperator::GraphOperator(const PlacedShard& shard, Kernels& kernels, ModelKind kind,
                             MemoryRoom room, MemoryAccount* account)
    : shard_(shard), kind_(kind), self_(kind == ModelKind::gcn) {
  const auto rows = static_cast<std::size_t>(shard.shard().inner_rows);
  std::vector<float> scales(rows);
  for (std::size_t i = 0; i < rows; ++i) scales[i] = row_scale(i);
  const auto place = [&] {
    Buffer buffer(rows * sizeof(float), room, account);
    kernels.device().upload(buffer.data(), scales.data(), buffer.size());
    return buffer;
  };
  row_scale_ = place();
  if (kind == ModelKind::gcn) col_scale_ = place();
  const auto prepare = [&](Direction direction, Blocks& blocks) {
    const Shard& s = shard.shard();
    blocks.inner = kernels.gather_blocks(shard.inner(direction), s.inner_rows, room, account);
    blocks.halo = kernels.gather_blocks(shard.halo(direction),
                                        s.adjacency(direction).plan.halo_rows, room, account);
  };
  prepare(Direction::forward, in_);
  if (shard.shard().out) prepare(Direction::backward, out_);
}

float GraphOperator::row_scale(std::size_t row) const {
  const auto degree = static_cast<double>(shard_.shard().in_degree[row]);
  if (kind_ == ModelKind::gcn) return static_cast<float>(1.0 / std::sqrt(degree + 1.0));
  return degree > 0 ? static_cast<float>(1.0 / degree) : 0.0F;
}

void GraphOperator::apply(const PassContext& pass, Direction direction, int layer,
                          ConstMatrixView x, bool nonnegative, MatrixView out,
                          AccumulatorView accumulator, FunctionRef<void()> overlap) const {
  const bool forward = direction == Direction::forward;
  const float* rows = scale_or_null(forward ? row_scale_ : col_scale_);
  const float* cols = scale_or_null(forward ? col_scale_ : row_scale_);
  if (accumulator.data != nullptr) {
    accumulator = {accumulator.data, out.rows, out.cols, padded_stride<double>(out.cols)};
  }
  const Blocks& in_blocks = blocks(direction);
  CsrView inner = shard_.inner(direction);
  if (!in_blocks.inner.empty()) inner.blocks = &in_blocks.inner;
  CsrView halo = shard_.halo(direction);
  if (!in_blocks.halo.empty()) halo.blocks = &in_blocks.halo;
  pass.halo.begin(layer, direction, x, cols, nonnegative);
  {
    const PhaseTimer timer(pass.clock.aggregate);
    if (pass.stored_rows != nullptr) {
      const Bf16View stored{pass.stored_rows, x.rows, x.cols, padded_stride<std::uint16_t>(x.cols)};
      pass.kernels.aggregate_inner_bf16(inner, x, cols, self_, rows, out, stored);
    } else {
      pass.kernels.aggregate_inner(inner, x, cols, self_, rows, out, accumulator);
    }
  }
  const bool last = accumulator.data != nullptr;
  if (!last) overlap();
  pass.halo.finish(layer, direction, [&](const PackedRows& packed) {
    const PhaseTimer timer(pass.clock.aggregate);
    pass.kernels.aggregate_halo(halo, packed, rows, out, accumulator);
  });
  if (last) overlap();
}

SparseRows GraphOperator::scale_columns(const SparseView& x) const {
  SparseRows out;
  out.cols = x.cols;
  const std::int64_t entries = x.entries;
  out.offsets.assign(x.offsets, x.offsets + x.rows + 1);
  out.columns.assign(x.columns, x.columns + entries);
  out.values.assign(x.values, x.values + entries);
  if (kind_ != ModelKind::gcn) return out;
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const float scale = row_scale(static_cast<std::size_t>(r));
    for (std::int64_t i = x.offsets[r]; i < x.offsets[r + 1]; ++i) {
      out.values[static_cast<std::size_t>(i)] *= scale;
    }
  }
  return out;
}

SparseRows GraphOperator::sum_sparse(const SparseView& inner, const SparseView& halo) const {
  SparseRows out;
  out.cols = inner.cols;
  std::vector<double> sums(static_cast<std::size_t>(inner.cols), 0.0);
  std::vector<std::uint8_t> seen(sums.size(), 0);
  std::vector<std::int32_t> touched;
  const auto add = [&](const SparseView& x, std::int64_t row) {
    for (std::int64_t i = x.offsets[row]; i < x.offsets[row + 1]; ++i) {
      const auto c = static_cast<std::size_t>(x.columns[i]);
      if (seen[c] == 0) {
        seen[c] = 1;
        touched.push_back(x.columns[i]);
      }
      sums[c] += static_cast<double>(x.values[i]);
    }
  };
  const Adjacency& a = shard_.shard().in;
  for (std::int64_t r = 0; r < rows(); ++r) {
    const auto row = static_cast<std::size_t>(r);
    if (self_) add(inner, r);
    for (std::int64_t i = a.inner.offsets[row]; i < a.inner.offsets[row + 1]; ++i) {
      add(inner, a.inner.columns[static_cast<std::size_t>(i)]);
    }
    for (std::int64_t i = a.halo.offsets[row]; i < a.halo.offsets[row + 1]; ++i) {
      add(halo, a.halo.columns[static_cast<std::size_t>(i)]);
    }
    std::sort(touched.begin(), touched.end());
    const float scale = row_scale(row);
    for (const std::int32_t column : touched) {
      const auto c = static_cast<std::size_t>(column);
      out.columns.push_back(column);
      out.values.push_back(static_cast<float>(scale * sums[c]));
      sums[c] = 0;
      seen[c] = 0;
    }
    touched.clear();
    out.offsets.push_back(static_cast<std::int64_t>(out.columns.size()));
  }
  return out;
}

}  // namespace heliograph
