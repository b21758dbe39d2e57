#include <cmath>

#include "core/cuda/attention.hpp"
#include "core/cuda/attention_lanes.hpp"
#include "core/cuda/sums.hpp"

namespace heliograph::cuda {
namespace {

/// Columns of a head for each lane, in steps of the head's lanes.
constexpr std::int64_t kLaneColumns = 4;

/// One head of one row and the lane's number among the lanes of the head. Lanes past the last head
/// have none, but take part in sums over lanes.
struct HeadOfRow {
  int lane;
  std::int64_t row, head;
  bool there;

  __device__ HeadOfRow(std::int64_t rows, std::int64_t heads, int lanes)
      : lane(static_cast<int>(threadIdx.x) % lanes) {
    const std::int64_t index = global_thread() / lanes;
    row = index / heads;
    head = index % heads;
    there = row < rows;
  }
};

/// The sum over columns of a[c] b[c]; no lane reads if the head is not there.
__device__ float head_dot(const HeadOfRow& at, const float* a, const float* b, std::int64_t cols,
                          int lanes) {
  float sum = 0;
  for (std::int64_t c = at.lane; at.there && c < cols; c += lanes) sum += a[c] * b[c];
  return sum_lanes(sum, 1, lanes);
}

__global__ void attention_scores_kernel(ConstMatrixView x, const float* source, const float* target,
                                        MatrixView s, MatrixView t, int lanes) {
  const HeadOfRow at(x.rows, s.cols, lanes);
  const std::int64_t cols = x.cols / s.cols;
  const std::int64_t begin = at.head * cols;
  const float* in = x.row(at.row) + begin;
  const float by_source = head_dot(at, in, source + begin, cols, lanes);
  const float by_target = head_dot(at, in, target + begin, cols, lanes);
  if (!at.there || at.lane != 0) return;
  s.row(at.row)[at.head] = by_source;
  t.row(at.row)[at.head] = by_target;
}

__global__ void attention_output_kernel(AttentionTotals<float> sums, std::int64_t heads,
                                        MatrixView out, MatrixView positive, MatrixView share,
                                        MatrixView log_total, int lanes) {
  const HeadOfRow at(out.rows, heads, lanes);
  if (!at.there) return;
  const std::int64_t cols = out.cols / heads;
  const float* totals = sums.rows.row(at.row);
  const float above = totals[heads + at.head];
  const float total = above + totals[2 * heads + at.head];
  const float inverse = 1 / total;
  for (std::int64_t c = at.head * cols + at.lane; c < (at.head + 1) * cols; c += lanes) {
    const float p = sums.positive.row(at.row)[c];
    out.row(at.row)[c] = (p + sums.other.row(at.row)[c]) * inverse;
    if (positive.data != nullptr) positive.row(at.row)[c] = p * inverse;
  }
  if (positive.data == nullptr || at.lane != 0) return;
  share.row(at.row)[at.head] = above * inverse;
  log_total.row(at.row)[at.head] = totals[at.head] + std::log(total);
}

__global__ void attention_target_gradient_kernel(ConstMatrixView d, float factor, float slope,
                                                 ConstMatrixView out, ConstMatrixView positive,
                                                 ConstMatrixView share, MatrixView r, MatrixView dt,
                                                 int lanes) {
  const HeadOfRow at(d.rows, r.cols, lanes);
  const std::int64_t cols = out.cols / r.cols;
  const std::int64_t begin = at.head * cols;
  const float* g = d.row(at.row) + (d.cols == cols ? 0 : begin);
  const float all = factor * head_dot(at, g, out.row(at.row) + begin, cols, lanes);
  if (at.there && at.lane == 0) r.row(at.row)[at.head] = all;
  if (dt.data == nullptr) return;
  const float above = factor * head_dot(at, g, positive.row(at.row) + begin, cols, lanes);
  if (!at.there || at.lane != 0) return;
  dt.row(at.row)[at.head] = (1 - slope) * (above - share.row(at.row)[at.head] * all);
}

__global__ void attention_rounding_kernel(KeptRows kept, RowRange rows, ConstMatrixView x,
                                          std::int64_t heads, float factor, float slope,
                                          AttentionTotals<float> sums, int lanes) {
  const HeadOfRow at(kept.packed.rows, heads, lanes);
  std::int32_t node = at.there ? kept.nodes[at.row] : -1;
  if (node < rows.begin || node >= rows.end) node = -1;
  const std::int64_t cols = x.cols / heads;
  float sum = 0;
  for (std::int64_t c = at.head * cols + at.lane; node >= 0 && c < (at.head + 1) * cols;
       c += lanes) {
    const float sent =
        decode_value(kept.packed.row(at.row), kept.packed.format, kept.packed.cols, c);
    sum += (sent - x.row(node)[c]) * (sums.positive.row(node)[c] + slope * sums.other.row(node)[c]);
  }
  sum = sum_lanes(sum, 1, lanes);
  if (node >= 0 && at.lane == 0) sums.rows.row(node)[at.head] += factor * sum;
}

struct SourceGradient {
  ConstMatrixView x;
  const float* source;
  const float* target;
  float factor, slope;
  AttentionTotals<float> sums;
  ConstMatrixView dt;
  MatrixView dx;
};

/// Each warp has the rows of one partial sum, and `split.heads` heads of a row at once.
__global__ void attention_source_gradient_kernel(SourceGradient job, HeadLanes split,
                                                 std::int64_t parts, float* partials) {
  const std::int64_t part = global_warp();
  if (part >= parts) return;
  const std::int64_t heads = job.dt.cols;
  const std::int64_t cols = job.x.cols / heads;
  // Each lane touches only its own columns.
  float* to_source = partials + part * 2 * job.x.cols;
  float* to_target = to_source + job.x.cols;
  const int own = lane() % split.lanes;
  for (std::int64_t first = 0; first < heads; first += split.heads) {
    const std::int64_t h = first + lane() / split.lanes;
    const bool there = lane() < split.lanes * split.heads && h < heads;
    const std::int64_t begin = there ? h * cols + own : 0;
    const std::int64_t end = there ? (h + 1) * cols : 0;
    for (std::int64_t c = begin; c < end; c += split.lanes) to_source[c] = to_target[c] = 0;
    for (std::int64_t i = part; i < job.x.rows; i += parts) {
      const float* in = job.x.row(i);
      const float* above = job.sums.positive.row(i);
      const float* other = job.sums.other.row(i);  // dx may lie here.
      float dot = 0;
      for (std::int64_t c = begin; c < end; c += split.lanes) {
        dot += in[c] * (above[c] + job.slope * other[c]);
      }
      dot = job.factor * sum_lanes(dot, 1, split.lanes);
      if (!there) continue;
      const float* totals = job.sums.rows.row(i);
      const float ds = dot + totals[h] - (totals[heads + h] + job.slope * totals[2 * heads + h]);
      const float dt = job.dt.row(i)[h];
      for (std::int64_t c = begin; c < end; c += split.lanes) {
        job.dx.row(i)[c] =
            job.factor * (above[c] + other[c]) + job.source[c] * ds + job.target[c] * dt;
        to_source[c] += ds * in[c];
        to_target[c] += dt * in[c];
      }
    }
  }
}

/// Lanes of one head where a lane has one head of one row.
int lanes_of(std::int64_t cols) { return head_lanes(1, cols, kLaneColumns).lanes; }

}  // namespace

void attention_scores(Queue& queue, ConstMatrixView x, const float* source, const float* target,
                      MatrixView s, MatrixView t) {
  const int lanes = lanes_of(x.cols / s.cols);
  launch(queue, "attention scores", attention_scores_kernel, cover(x.rows * s.cols * lanes), x,
         source, target, s, t, lanes);
}

void attention_output(Queue& queue, const AttentionTotals<float>& sums, int heads, MatrixView out,
                      MatrixView positive, MatrixView share, MatrixView log_total) {
  const int lanes = lanes_of(out.cols / heads);
  launch(queue, "attention output", attention_output_kernel, cover(out.rows * heads * lanes), sums,
         heads, out, positive, share, log_total, lanes);
}

void attention_target_gradient(Queue& queue, ConstMatrixView d, float factor, float slope,
                               ConstMatrixView out, ConstMatrixView positive, ConstMatrixView share,
                               MatrixView r, MatrixView dt) {
  const int lanes = lanes_of(out.cols / r.cols);
  launch(queue, "attention gradient of targets", attention_target_gradient_kernel,
         cover(d.rows * r.cols * lanes), d, factor, slope, out, positive, share, r, dt, lanes);
}

void attention_rounding(Queue& queue, const KeptRows& kept, RowRange rows, ConstMatrixView x,
                        int heads, float factor, float slope, const AttentionTotals<float>& sums) {
  const int lanes = lanes_of(x.cols / heads);
  launch(queue, "attention rounding", attention_rounding_kernel,
         cover(kept.packed.rows * heads * lanes), kept, rows, x, heads, factor, slope, sums, lanes);
}

void attention_source_gradient(Queue& queue, ConstMatrixView x, const float* source,
                               const float* target, float factor, float slope,
                               const AttentionTotals<float>& sums, ConstMatrixView dt,
                               MatrixView dx, bool accumulate, float* partials, float* g_source,
                               float* g_target) {
  const std::int64_t parts = sum_parts(queue, x.rows);
  launch(queue, "attention gradient of sources", attention_source_gradient_kernel,
         cover_by_warps(parts, kSumThreads),
         SourceGradient{x, source, target, factor, slope, sums, dt, dx},
         head_lanes(dt.cols, x.cols / dt.cols, kLaneColumns), parts, partials);
  add_partials(queue, partials, parts, x.cols, 2, {g_source, g_target, nullptr}, accumulate);
}

}  // namespace heliograph::cuda
