#include "layers/graph_operator.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace heliograph {
namespace {

/// How many partial sums are made and offered at a time.
constexpr std::int64_t kSumsBlock = 1024;

const float* scale_or_null(const Buffer& buffer) {
  return buffer.size() == 0 ? nullptr : buffer.as<float>().data();
}

}  // namespace

GraphOperator::GraphOperator(const PlacedShard& shard, Kernels& kernels,
                             const Propagation& propagation, MemoryUse use, MemoryAccount* account)
    : shard_(shard), propagation_(propagation) {
  const auto place = [&](DegreeScale kind) {
    if (kind == DegreeScale::one) return Buffer();
    std::vector<float> scales(static_cast<std::size_t>(rows()));
    for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = scale(kind, i);
    Buffer buffer(scales.size() * sizeof(float), use, account);
    kernels.device().upload(buffer.data(), scales.data(), buffer.size());
    return buffer;
  };
  row_scale_ = place(propagation.row);
  col_scale_ = place(propagation.col);
  place_blocks(kernels, use, account);
}

void GraphOperator::place_blocks(Kernels& kernels, MemoryUse use, MemoryAccount* account) {
  if (!propagation_.sums) return;
  const auto prepare = [&](Direction direction, Blocks& blocks) {
    const Shard& s = shard_.shard();
    blocks.inner = kernels.gather_blocks(shard_.inner(direction), s.inner_rows, use, account);
    blocks.halo = kernels.gather_blocks(shard_.halo(direction),
                                        s.adjacency(direction).plan.halo_rows, use, account);
  };
  prepare(Direction::forward, in_);
  if (shard_.shard().out) prepare(Direction::backward, out_);
}

void GraphOperator::reserve_sums(std::int64_t cols, MemoryUse use, MemoryAccount* account) {
  std::int64_t rows = 0;
  for (const Direction direction : {Direction::forward, Direction::backward}) {
    const Adjacency& a = shard_.shard().adjacency(direction);
    if (a.sums) rows = std::max<std::int64_t>(rows, a.sums->plan.inner_rows);
  }
  sums_ =
      Buffer(static_cast<std::size_t>(rows * padded_stride(cols)) * sizeof(float), use, account);
}

double GraphOperator::degree(std::size_t row) const {
  const Shard& s = shard_.shard();
  const auto self = static_cast<double>(propagation_.self);
  if (s.in.inner.values.empty() && s.in.halo.values.empty()) {
    return static_cast<double>(s.in_degree[row]) + self;
  }
  const auto sum = [&](const Csr& block) {
    const auto values = block.values.begin();
    return std::accumulate(values + block.offsets[row], values + block.offsets[row + 1], 0.0);
  };
  return sum(s.in.inner) + sum(s.in.halo) + self;
}

float GraphOperator::scale(DegreeScale scale, std::size_t row) const {
  if (scale == DegreeScale::one) return 1.0F;
  const double d = degree(row);
  if (d <= 0) return 0.0F;
  return static_cast<float>(1.0 / (scale == DegreeScale::inverse ? d : std::sqrt(d)));
}

void GraphOperator::offer(const PassContext& pass, const Site& site, ConstMatrixView x,
                          RowRange rows) const {
  const bool forward = site.direction == Direction::forward;
  const float* cols = scale_or_null(forward ? col_scale_ : row_scale_);
  if (rows.begin == 0) pass.halo.open(site, {x, cols});
  pass.halo.offer(site, rows);
  if (site.sums == nullptr || rows.end < x.rows) return;
  const CsrView made = shard_.sums_made(site.direction);
  const MatrixView sums{sums_.as<float>().data(), made.rows, x.cols, padded_stride(x.cols)};
  pass.halo.open(*site.sums, {sums});
  // Where rows come in blocks, so do the sums.
  const std::int64_t block = rows.begin > 0 ? kSumsBlock : std::max<std::int64_t>(1, sums.rows);
  for (std::int64_t begin = 0; begin == 0 || begin < sums.rows; begin += block) {
    const RowRange range{begin, std::min(begin + block, sums.rows)};
    {
      const PhaseTimer timer(pass.times.aggregate);
      pass.kernels.aggregate_inner(made.row_range(range), x, cols, 0, nullptr,
                                   sums.row_range(range), {});
    }
    pass.halo.offer(*site.sums, range);
  }
}

CsrView GraphOperator::halo(Direction direction) const {
  CsrView halo = shard_.halo(direction);
  if (!blocks(direction).halo.empty()) halo.blocks = &blocks(direction).halo;
  return halo;
}

void GraphOperator::begin_sum(const PassContext& pass, const Site& site, ConstMatrixView x,
                              MatrixView out, const AggregationScratch& scratch,
                              FunctionRef<void()> overlap) const {
  const bool forward = site.direction == Direction::forward;
  const float* rows = scale_or_null(forward ? row_scale_ : col_scale_);
  const float* cols = scale_or_null(forward ? col_scale_ : row_scale_);
  const float self = propagation_.self;
  CsrView inner = shard_.inner(site.direction);
  if (!blocks(site.direction).inner.empty()) inner.blocks = &blocks(site.direction).inner;
  {
    const PhaseTimer timer(pass.times.aggregate);
    if (scratch.bf16.data != nullptr) {
      pass.kernels.aggregate_inner_bf16(inner, x, cols, self, rows, out, scratch.bf16);
    } else {
      pass.kernels.aggregate_inner(inner, x, cols, self, rows, out, scratch.accumulator);
    }
  }
  if (pass.kernels.reproducible())
    add_received(pass, site, {0, out.rows}, out, scratch.accumulator);
  if (pass.recorded != nullptr) pass.recorded->begin(site, out);
  overlap();
}

void GraphOperator::add_halo(const PassContext& pass, const Site& site, MatrixView out,
                             RowRange rows) const {
  if (!pass.kernels.reproducible()) add_received(pass, site, rows, out, {});
}

void GraphOperator::add_received(const PassContext& pass, const Site& site, RowRange rows,
                                 MatrixView out, AccumulatorView accumulator) const {
  const MatrixView recorded = pass.recorded != nullptr ? pass.recorded->of(site) : MatrixView{};
  add_entries(pass, site, halo(site.direction), rows, out, accumulator, recorded);
  if (site.sums == nullptr) return;
  add_entries(pass, *site.sums, shard_.sums_received(site.direction), rows, out, accumulator,
              recorded);
}

void GraphOperator::add_entries(const PassContext& pass, const Site& site, CsrView entries,
                                RowRange rows, MatrixView out, AccumulatorView accumulator,
                                MatrixView recorded) const {
  const std::optional<PackedRows> received = pass.halo.received(site);
  // Gather blocks order the entries of all rows.
  const bool by_row = received && (entries.blocks == nullptr || received->format.bits < 32);
  if (by_row) {
    entries = entries.row_range(rows);
  } else if (rows.begin > 0) {
    return;  // The first range has added all rows.
  } else {
    rows = {0, out.rows};
  }
  const float* scale =
      scale_or_null(site.direction == Direction::forward ? row_scale_ : col_scale_);
  if (scale != nullptr) scale += rows.begin;
  const auto add = [&](const PackedRows& packed) {
    if (packed.rows == 0) return;
    const PhaseTimer timer(pass.times.aggregate);
    pass.kernels.aggregate_halo(entries, packed, scale, out.row_range(rows), accumulator);
    if (recorded.rows == 0) return;
    pass.kernels.aggregate_halo(entries, packed, scale, recorded.row_range(rows), {});
  };
  if (received) {
    add(*received);
  } else {
    pass.halo.finish(site, add);
  }
}

SparseRows GraphOperator::scale_columns(const SparseView& x) const {
  SparseRows out;
  out.cols = x.cols;
  const std::int64_t entries = x.entries;
  out.offsets.assign(x.offsets, x.offsets + x.rows + 1);
  out.columns.assign(x.columns, x.columns + entries);
  out.values.assign(x.values, x.values + entries);
  if (propagation_.col == DegreeScale::one) return out;
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const float factor = scale(propagation_.col, static_cast<std::size_t>(r));
    for (std::int64_t i = x.offsets[r]; i < x.offsets[r + 1]; ++i) {
      out.values[static_cast<std::size_t>(i)] *= factor;
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
  const auto add = [&](const SparseView& x, std::int64_t row, double weight) {
    for (std::int64_t i = x.offsets[row]; i < x.offsets[row + 1]; ++i) {
      const auto c = static_cast<std::size_t>(x.columns[i]);
      if (seen[c] == 0) {
        seen[c] = 1;
        touched.push_back(x.columns[i]);
      }
      sums[c] += weight * static_cast<double>(x.values[i]);
    }
  };
  const Adjacency& a = shard_.shard().in;
  const auto self = static_cast<double>(propagation_.self);
  for (std::int64_t r = 0; r < rows(); ++r) {
    const auto row = static_cast<std::size_t>(r);
    if (self != 0) add(inner, r, self);
    const auto add_entries = [&](const Csr& block, const SparseView& x) {
      for (std::int64_t i = block.offsets[row]; i < block.offsets[row + 1]; ++i) {
        const auto e = static_cast<std::size_t>(i);
        add(x, block.columns[e], block.values.empty() ? 1.0 : static_cast<double>(block.values[e]));
      }
    };
    add_entries(a.inner, inner);
    add_entries(a.halo, halo);
    std::sort(touched.begin(), touched.end());
    const float factor = scale(propagation_.row, row);
    for (const std::int32_t column : touched) {
      const auto c = static_cast<std::size_t>(column);
      out.columns.push_back(column);
      out.values.push_back(static_cast<float>(factor * sums[c]));
      sums[c] = 0;
      seen[c] = 0;
    }
    touched.clear();
    out.offsets.push_back(static_cast<std::int64_t>(out.columns.size()));
  }
  return out;
}

}  // namespace heliograph
