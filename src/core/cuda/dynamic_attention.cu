// Attention with dynamic scores. A warp has some heads of a row and takes one entry after another,
// so that its lanes agree on the entries; the lanes of a head share its columns. Heads of more
// columns than the lanes hold are summed in chunks, each of which computes all scores anew.

#include <cmath>
#include <limits>

#include "core/cuda/attention.hpp"
#include "core/cuda/attention_lanes.hpp"
#include "core/cuda/sums.hpp"

namespace heliograph::cuda {
namespace {

/// Columns of a head that a lane sums at once, in steps of the head's lanes.
constexpr int kLaneSums = 8;

/// The lane's place among those of its head. Lanes past the last head have none, but take part in
/// sums over lanes.
struct DynamicLane {
  int lane, lanes;
  std::int64_t head, cols;
  std::int64_t begin;  ///< The head's first column.
  bool there;

  __device__ DynamicLane(const DynamicAttention& a, HeadLanes split, std::int64_t first)
      : lane(cuda::lane() % split.lanes),
        lanes(split.lanes),
        head(first + cuda::lane() / split.lanes),
        cols(a.head_cols()),
        begin(head * cols),
        there(cuda::lane() < split.lanes * split.heads && head < a.heads) {}

  /// The sum of value(c) over the head's columns c = 0, 1, ...
  template <class Value>
  __device__ float sum(const Value& value) const {
    float mine = 0;
    for (std::int64_t c = lane; there && c < cols; c += lanes) mine += value(c);
    return sum_lanes(mine, 1, lanes);
  }
  /// Runs body(k, c) for the lane's columns c of chunk `chunk`, number k = 0, 1, ...
  template <class Body>
  __device__ void each_column(std::int64_t chunk, const Body& body) const {
#pragma unroll
    for (int k = 0; k < kLaneSums; ++k) {
      const std::int64_t c = chunk + lane + k * lanes;
      if (there && c < cols) body(k, c);
    }
  }
};

/// Calls visit(block, neighbour) for each entry of row i; all lanes of a warp have the same row.
template <class Visit>
__device__ void each_entry(const DynamicAttention& a, std::int64_t i, const Visit& visit) {
  for (int b = 0; b < 2; ++b) {
    const DynamicBlock& block = b == 0 ? a.inner : a.halo;
    if (i >= block.csr.rows) continue;
    if (block.own_rows) visit(block, static_cast<std::int32_t>(block.first + i));
    for (std::int64_t e = block.csr.offsets[i]; e < block.csr.offsets[i + 1]; ++e) {
      visit(block, block.csr.columns[e]);
    }
  }
}

__device__ float leak(float x, float slope) { return x > 0 ? 1.0F : slope; }

__device__ float dropout_factor(const EdgeDropout& dropout, std::int64_t row, std::int32_t col,
                                bool row_is_source, std::int64_t head) {
  if (dropout.threshold == 0) return 1;
  return dropout.factor(dropout.key(row, col, row_is_source), head);
}

__device__ float score_of(const DynamicAttention& a, const DynamicLane& at, const float* source,
                          const float* target) {
  return at.sum([&](std::int64_t c) {
    const float x = source[at.begin + c] + target[at.begin + c];
    return a.vector[at.begin + c] * leak(x, a.slope) * x;
  });
}

/// One edge and head of backward.
struct EdgeGradient {
  float weight;  ///< After dropout.
  float score;   ///< The gradient of the score.
};
__device__ EdgeGradient edge_gradient(const DynamicAttention& a, const DynamicLane& at,
                                      const float* source, const float* target, float keep) {
  const float score = score_of(a, at, source, target);
  const float* const d = a.gradient(target, at.there ? at.head : 0);
  const float dot = at.sum([&](std::int64_t c) { return d[c] * source[at.begin + c]; });
  if (!at.there) return {0, 0};
  const float exponent = score - a.log_total(target, at.head);
  const float alpha = std::exp(exponent > 0 ? 0.0F : exponent);  // Late totals may be too small.
  return {alpha * keep, alpha * (keep * dot - a.product(target, at.head))};
}

/// Row and first head of each warp: `groups` warps have the heads of a row.
struct DynamicWarp {
  std::int64_t row, first;
  __device__ DynamicWarp(const DynamicAttention& a, HeadLanes split) {
    const std::int64_t groups = (a.heads + split.heads - 1) / split.heads;
    row = global_warp() / groups;
    first = global_warp() % groups * split.heads;
  }
};

__global__ void dynamic_attention_kernel(DynamicAttention a, HeadLanes split, MatrixView out,
                                         MatrixView log_total) {
  const DynamicWarp warp(a, split);
  if (warp.row >= out.rows) return;
  const DynamicLane at(a, split, warp.first);
  for (std::int64_t chunk = 0; chunk < at.cols; chunk += std::int64_t{kLaneSums} * at.lanes) {
    float sums[kLaneSums] = {};
    float highest = std::numeric_limits<float>::lowest(), total = 0;
    each_entry(a, warp.row, [&](const DynamicBlock& block, std::int32_t j) {
      const float *target = block.rows.row(warp.row), *source = block.neighbours.row(j);
      const float score = score_of(a, at, source, target);
      const float raised = score > highest ? score : highest;
      const float factor = std::exp(highest - raised), weight = std::exp(score - raised);
      highest = raised;
      total = factor * total + weight;
      const float kept =
          weight * (at.there ? dropout_factor(block.dropout, warp.row, j, false, at.head) : 0);
      at.each_column(chunk, [&](int k, std::int64_t c) {
        sums[k] = factor * sums[k] + kept * source[at.begin + c];
      });
    });
    at.each_column(
        chunk, [&](int k, std::int64_t c) { out.row(warp.row)[at.begin + c] = sums[k] / total; });
    if (chunk > 0 || !at.there || at.lane != 0 || log_total.data == nullptr) continue;
    log_total.row(warp.row)[at.head] = highest + std::log(total);
  }
}

/// Each warp has the rows of one partial sum.
__global__ void dynamic_targets_kernel(DynamicAttention a, HeadLanes split, MatrixView d_targets,
                                       std::int64_t parts, float* partials) {
  const std::int64_t part = global_warp();
  if (part >= parts) return;
  for (std::int64_t first = 0; first < a.heads; first += split.heads) {
    const DynamicLane at(a, split, first);
    for (std::int64_t chunk = 0; chunk < at.cols; chunk += std::int64_t{kLaneSums} * at.lanes) {
      float g_vector[kLaneSums] = {};
      for (std::int64_t i = part; i < d_targets.rows; i += parts) {
        float sums[kLaneSums] = {};
        each_entry(a, i, [&](const DynamicBlock& block, std::int32_t j) {
          const float *target = block.rows.row(i), *source = block.neighbours.row(j);
          const float keep = at.there ? dropout_factor(block.dropout, i, j, false, at.head) : 0;
          const float g = edge_gradient(a, at, source, target, keep).score;
          at.each_column(chunk, [&](int k, std::int64_t c) {
            const float x = source[at.begin + c] + target[at.begin + c];
            const float share = g * leak(x, a.slope);
            sums[k] += share;
            g_vector[k] += share * x;
          });
        });
        at.each_column(chunk, [&](int k, std::int64_t c) {
          d_targets.row(i)[at.begin + c] = a.vector[at.begin + c] * sums[k];
        });
      }
      at.each_column(chunk, [&](int k, std::int64_t c) {
        partials[part * a.cols + at.begin + c] = g_vector[k];
      });
    }
  }
}

__global__ void dynamic_sources_kernel(DynamicAttention a, HeadLanes split, MatrixView d_sources) {
  const DynamicWarp warp(a, split);
  if (warp.row >= d_sources.rows) return;
  const DynamicLane at(a, split, warp.first);
  for (std::int64_t chunk = 0; chunk < at.cols; chunk += std::int64_t{kLaneSums} * at.lanes) {
    float sums[kLaneSums] = {};
    each_entry(a, warp.row, [&](const DynamicBlock& block, std::int32_t i) {
      const float *source = block.rows.row(warp.row), *target = block.neighbours.row(i);
      const float keep = at.there ? dropout_factor(block.dropout, warp.row, i, true, at.head) : 0;
      const EdgeGradient g = edge_gradient(a, at, source, target, keep);
      at.each_column(chunk, [&](int k, std::int64_t c) {
        const float x = source[at.begin + c] + target[at.begin + c];
        sums[k] += g.weight * a.gradient(target, at.head)[c] +
                   g.score * a.vector[at.begin + c] * leak(x, a.slope);
      });
    });
    at.each_column(chunk,
                   [&](int k, std::int64_t c) { d_sources.row(warp.row)[at.begin + c] = sums[k]; });
  }
}

__global__ void decode_rows_kernel(PackedRows packed, const std::int32_t* nodes, MatrixView values,
                                   MatrixView exact) {
  const std::int64_t r = global_warp();
  if (r >= packed.rows) return;
  const std::int64_t node = nodes == nullptr ? r : nodes[r];
  if (node < 0) return;
  for (std::int64_t c = lane(); values.data != nullptr && c < packed.cols; c += kWarp) {
    values.row(node)[packed.col_begin + c] =
        decode_value(packed.row(r), packed.format, packed.cols, c);
  }
  for (std::int64_t c = lane(); exact.data != nullptr && c < exact.cols; c += kWarp) {
    exact.row(node)[c] = packed.exact(r, c);
  }
}

HeadLanes split_of(const DynamicAttention& a) {
  return head_lanes(a.heads, a.head_cols(), kLaneSums / 2);
}
/// A warp for some heads of each row.
Grid grid_of(const DynamicAttention& a, std::int64_t rows) {
  const int heads = split_of(a).heads;
  return cover_by_warps(rows * ((a.heads + heads - 1) / heads));
}

}  // namespace

void dynamic_attention(Queue& queue, const DynamicAttention& a, MatrixView out,
                       MatrixView log_total) {
  launch(queue, "dynamic attention", dynamic_attention_kernel, grid_of(a, out.rows), a, split_of(a),
         out, log_total);
}

void dynamic_attention_targets(Queue& queue, const DynamicAttention& a, MatrixView d_targets,
                               float* partials, float* g_vector) {
  const std::int64_t parts = sum_parts(queue, d_targets.rows);
  launch(queue, "dynamic attention's gradient of targets", dynamic_targets_kernel,
         cover_by_warps(parts, kSumThreads), a, split_of(a), d_targets, parts, partials);
  add_partials(queue, partials, parts, a.cols, 1, {g_vector, nullptr, nullptr});
}

void dynamic_attention_sources(Queue& queue, const DynamicAttention& a, MatrixView d_sources) {
  launch(queue, "dynamic attention's gradient of sources", dynamic_sources_kernel,
         grid_of(a, d_sources.rows), a, split_of(a), d_sources);
}

void decode_rows(Queue& queue, const PackedRows& packed, const std::int32_t* nodes,
                 MatrixView values, MatrixView exact) {
  launch(queue, "decode rows", decode_rows_kernel, cover_by_warps(packed.rows), packed, nodes,
         values, exact);
}

}  // namespace heliograph::cuda
