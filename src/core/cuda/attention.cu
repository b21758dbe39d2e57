// Sums of neighbours' rows by attention. A warp has some heads of an output row. Its lanes weigh an
// entry each; then all lanes of a head take one entry after another, eight columns a lane, so that
// a score is read and an exponential computed once for each entry and head. Forward, the scores of
// a row are read twice, first for the largest. Heads that fill only a part of the warp leave
// further entries to its other parts.

#include <bit>
#include <cmath>
#include <limits>

#include "core/cuda/attention.hpp"
#include "core/cuda/attention_columns.hpp"
#include "core/cuda/attention_lanes.hpp"
#include "core/cuda/wide.hpp"
#include "core/packed_rows.hpp"

namespace heliograph::cuda {
namespace {

constexpr int kAttendWarps = 8;  // warps of a block
/// A row with more entries is summed by a whole block, since one warp could take longest of all.
constexpr std::int64_t kLongRow = 512;

struct AttentionJob {
  CsrView csr;
  const float* row_scores = nullptr;
  std::int64_t row_scores_stride = 0;
  const std::byte* rows = nullptr;   ///< Neighbours' rows.
  const std::byte* exact = nullptr;  ///< Their exact columns.
  std::uint32_t pitch = 0, exact_pitch = 0;
  std::uint32_t head_bytes = 0;  ///< With codes: from one head of a row to the next.
  std::int32_t parameter_bytes = 0;
  std::int64_t first = 0, cols = 0;  ///< The columns that the rows have.
  std::int64_t head_cols = 0;        ///< Columns of a head in the sums.
  AttentionTotals<float> sums;
  EdgeDropout dropout;
  float keep_scale = 1, slope = 0;
  std::int32_t heads = 1;
  HeadLanes split;
  std::int32_t chunks = 1;  ///< Steps in which a warp takes the columns of a head.
  bool backward = false, shared = false, own_rows = false;
  bool overwrites = false;  ///< The sums begin with these entries.
  bool counts = true;       ///< Entries count in the totals and, forward, raise the shift.
};

/// The heads of one output row that a warp sums. Warps take all rows of the first heads before the
/// next heads, so that fewer bytes of each row compete for the cache.
struct RowHeads {
  std::int64_t row;
  int first = 0;
  std::int64_t entries = -1;  ///< With the row's own; -1 if there is no such row.

  __device__ RowHeads(const AttentionJob& job, std::int64_t warp) : row(warp) {
    while (row >= job.csr.rows && first < job.heads) {
      row -= job.csr.rows;
      first += job.split.heads;
    }
    if (first >= job.heads) return;
    entries = job.csr.offsets[row + 1] - job.csr.offsets[row] + (job.own_rows ? 1 : 0);
  }
};

/// The columns of a head that the neighbours' rows have.
struct HeadColumns {
  std::int64_t out;    ///< First column in the sums.
  std::int64_t cols;   ///< At most 0 if there are none.
  std::int64_t bytes;  ///< Where they begin in a row.
};
template <int kBits>
__device__ HeadColumns columns_of(const AttentionJob& job, int head) {
  const std::int64_t begin = head * job.head_cols;
  if (job.shared) return {begin + job.first, job.cols, 0};
  if (kBits <= 8) return {begin, job.head_cols, std::int64_t{head} * job.head_bytes};
  const std::int64_t end = begin + job.head_cols;
  const std::int64_t from = begin > job.first ? begin : job.first;
  const std::int64_t to = end < job.first + job.cols ? end : job.first + job.cols;
  return {from, to - from, (from - job.first) * kBits / 8};
}

/// How the warps that share a row combine their values; all get the result. A single warp:
struct OneWarp {
  int warps = 1, warp = 0;
  __device__ float sum(float value) const { return value; }
  __device__ float largest(float value) const { return value; }
};
/// All warps of a block, which meet in every call.
struct WholeBlock {
  float* values;  ///< Shared memory: one for each thread.
  int warps, warp;

  template <class Combine>
  __device__ float combine(float value, const Combine& combine_two) const {
    values[threadIdx.x] = value;
    __syncthreads();
    float result = values[lane()];
    for (int w = 1; w < warps; ++w) result = combine_two(result, values[w * kWarp + lane()]);
    __syncthreads();
    return result;
  }
  __device__ float sum(float value) const {
    return combine(value, [](float mine, float other) { return mine + other; });
  }
  __device__ float largest(float value) const {
    return combine(value, [](float mine, float other) { return other > mine ? other : mine; });
  }
};

/// The sums of some heads of a row, in the registers of a warp or of the warps of a block.
template <int kBits, int kUnit, class Team>
class HeadSums {
 public:
  __device__ HeadSums(const AttentionJob& job, const RowHeads& at, const Team& team)
      : job_(job),
        team_(team),
        row_(at.row),
        own_(job.own_rows ? 1 : 0),
        lane_(lane() % job.split.lanes),
        heads_lanes_(job.split.lanes * job.split.heads),
        there_(at.first + lane() % heads_lanes_ / job.split.lanes < job.heads),
        head_(there_ ? at.first + lane() % heads_lanes_ / job.split.lanes : at.first),
        columns_(columns_of<kBits>(job, head_)),
        row_score_(job.row_scores[row_ * job.row_scores_stride + head_]) {
    const std::int64_t share = (at.entries + team.warps - 1) / team.warps;
    begin_ = share * team.warp;
    end_ = begin_ + share < at.entries ? begin_ + share : at.entries;
    // Entries of this lane: one of each `step_`.
    mine_ = begin_ + lane() / heads_lanes_ * job.split.lanes + lane_;
    step_ = kWarp / job.split.heads;
  }

  __device__ void run() {
    float factor = 1;  // of what was summed before
    float* const totals = job_.sums.rows.row(row_);
    if (!job_.backward && !job_.counts) shift_ = totals[head_];
    if (!job_.backward && job_.counts) {
      const float highest = leaky(row_score_ + largest_score());
      const float before = job_.overwrites ? highest : totals[head_];
      __syncwarp();  // Before one lane writes it.
      shift_ = highest > before ? highest : before;
      factor = std::exp(before - shift_);
    }
    for (int chunk = 0; chunk < job_.chunks; ++chunk) sum_chunk(chunk, factor);
    if (!job_.counts) return;
    positive_ = combined(positive_, 1);
    other_ = combined(other_, 1);
    if (!writes()) return;
    if (lane_ == 0) {
      if (!job_.backward || job_.overwrites) totals[head_] = job_.backward ? 0 : shift_;
      put(totals + job_.heads + head_, factor, positive_);
      put(totals + 2 * job_.heads + head_, factor, other_);
    }
    if (factor == 1) return;
    // The head's columns that these rows lack.
    for (std::int64_t c = lane_; c < job_.head_cols; c += job_.split.lanes) {
      const std::int64_t column = head_ * job_.head_cols + c;
      if (column >= columns_.out && column < columns_.out + columns_.cols) continue;
      job_.sums.positive.row(row_)[column] *= factor;
      job_.sums.other.row(row_)[column] *= factor;
    }
  }

 private:
  /// An entry as the lanes of its head sum it.
  struct Entry {
    std::int32_t column = 0;
    float weight = 0;  ///< Times the step, with codes; negative if the score is not above 0.
  };

  __device__ bool writes() const { return there_ && team_.warp == 0 && lane() < heads_lanes_; }
  __device__ float leaky(float x) const { return x > 0 ? x : job_.slope * x; }
  __device__ std::int32_t column_of_entry(std::int64_t e) const {
    if (e < own_) return static_cast<std::int32_t>(row_);
    return job_.csr.columns[job_.csr.offsets[row_] + e - own_];
  }
  /// Exact column `part` of the lane's head in row j.
  __device__ float exact(std::int32_t j, int part) const {
    return std::bit_cast<float>(load_bytes<4, kUnit>(
        row_at(job_.exact, j, job_.exact_pitch) + 4 * (std::int64_t{part} * job_.heads + head_)));
  }
  /// The sum over all that have entries of the head, whose lanes differ from bit `low` on.
  __device__ float combined(float value, int low) const {
    if (low == 1) value = sum_lanes(value, 1, job_.split.lanes);
    return team_.sum(sum_lanes(value, heads_lanes_, kWarp));
  }
  __device__ void put(float* to, float factor, float value) const {
    *to = job_.overwrites ? value : factor * *to + value;
  }

  __device__ float largest_score() const {
    float largest = std::numeric_limits<float>::lowest();
    const auto greater = [](float mine, float other) { return other > mine ? other : mine; };
    for (std::int64_t e = mine_; e < end_; e += step_) {
      largest = greater(largest, exact(column_of_entry(e), 0));
    }
    largest = combine_lanes(largest, 1, job_.split.lanes, greater);
    return team_.largest(combine_lanes(largest, heads_lanes_, kWarp, greater));
  }

  /// Weighs entry e and counts it in the sums of this lane that columns do not have.
  __device__ Entry weigh(std::int64_t e, bool totals, float (&minimum)[2]) {
    Entry entry;
    entry.column = column_of_entry(e);
    const float score = row_score_ + exact(entry.column, 0);
    float w = std::exp(leaky(score) - (job_.backward ? exact(entry.column, 1) : shift_));
    const float value = job_.backward ? w * exact(entry.column, 2) : w;
    if (totals) {
      positive_ += score > 0 ? value : 0.0F;
      other_ += score > 0 ? 0.0F : value;
    }
    if (job_.dropout.threshold != 0) {
      const std::uint64_t key = job_.dropout.key(row_, entry.column, job_.backward);
      const bool kept = noise16(key, static_cast<std::uint32_t>(head_)) >= job_.dropout.threshold;
      w = kept ? w * job_.keep_scale : 0.0F;
    }
    if constexpr (kBits <= 8) {
      constexpr int kHalfUnit = kUnit < 2 ? 1 : 2;
      const std::byte* parameters = row_at(job_.rows, entry.column, job_.pitch) + columns_.bytes;
      const auto half = [&](int at) {
        return static_cast<std::uint16_t>(load_bytes<2, kHalfUnit>(parameters + at));
      };
      if (job_.parameter_bytes == 4) {
        const float own = w * bf16_to_float(half(0));
        minimum[0] += score > 0 ? own : 0.0F;
        minimum[1] += score > 0 ? 0.0F : own;
      }
      w *= step_to_float(half(job_.parameter_bytes - 2));
    }
    entry.weight = score > 0 ? w : -w;
    return entry;
  }

  __device__ void sum_chunk(int chunk, float factor) {
    const LaneColumns<kBits, kUnit> columns(columns_.cols, chunk, lane_, job_.split.lanes);
    const std::byte* const values = job_.rows + columns_.bytes + job_.parameter_bytes;
    float sums[2][kAttendColumns] = {};
    float minimum[2] = {};
    const bool totals = job_.counts && chunk == 0;
    for (std::int64_t batch = begin_; batch < end_; batch += step_) {
      const std::int64_t e = mine_ + (batch - begin_);
      const bool weighs = e < end_ && there_ && (totals || columns_.cols > 0);
      const Entry own = weighs ? weigh(e, totals, minimum) : Entry{};
#pragma unroll 4
      for (int k = 0; k < job_.split.lanes; ++k) {
        const std::int32_t j = __shfl_sync(kWholeWarp, own.column, k, job_.split.lanes);
        const float w = __shfl_sync(kWholeWarp, own.weight, k, job_.split.lanes);
        if (w == 0) continue;  // No entry, or one that was dropped.
        columns.add(row_at(values, j, job_.pitch), w > 0 ? w : 0.0F, w > 0 ? 0.0F : -w, sums);
      }
    }
#pragma unroll
    for (int sign = 0; sign < 2; ++sign) {
      if (kBits <= 8) minimum[sign] = combined(minimum[sign], 1);
      const MatrixView& out = sign == 0 ? job_.sums.positive : job_.sums.other;
#pragma unroll
      for (int i = 0; i < kAttendColumns; ++i) {
        const float sum = combined(sums[sign][i], heads_lanes_) + minimum[sign];
        if (writes() && columns.has(i)) {
          put(out.row(row_) + columns_.out + columns.column(i), factor, sum);
        }
      }
    }
  }

  const AttentionJob& job_;
  const Team& team_;
  std::int64_t row_, begin_, end_, mine_;
  std::int64_t own_;  ///< Entries of the row itself, which come first.
  int step_;          ///< Entries that the warp weighs at once.
  int lane_;          ///< Among the lanes of the head.
  int heads_lanes_;   ///< Lanes that have different heads or columns.
  bool there_;        ///< Whether there is such a head; if not, its lanes follow another.
  int head_;
  HeadColumns columns_;
  float row_score_;
  float shift_ = 0;
  float positive_ = 0, other_ = 0;  ///< Totals.
};

/// Each warp sums some heads of a row; then all warps of a block sum each of its long rows.
template <int kBits, int kUnit>
__global__ void __launch_bounds__(kAttendWarps* kWarp) attend_kernel(AttentionJob job) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const RowHeads mine(job, global_warp());
  if (mine.entries >= (job.overwrites ? 0 : 1) && mine.entries <= kLongRow) {
    HeadSums<kBits, kUnit, OneWarp>(job, mine, OneWarp()).run();
  }
  // Every warp looks at the rows of all warps, so that all agree on the long ones.
  const RowHeads theirs(job, global_warp() - warp + lane() % kAttendWarps);
  const unsigned is_long = __ballot_sync(kWholeWarp, theirs.entries > kLongRow);
  for (int w = 0; w < kAttendWarps; ++w) {
    if ((is_long & (1U << w)) == 0) continue;
    const RowHeads row(job, global_warp() - warp + w);
    const WholeBlock team{shared_memory<float>(), kAttendWarps, warp};
    HeadSums<kBits, kUnit, WholeBlock>(job, row, team).run();
  }
}

template <int kBits, int kUnit>
void start(Queue& queue, AttentionJob job) {
  const std::int64_t widest = job.cols < job.head_cols ? job.cols : job.head_cols;
  job.split = head_lanes(job.heads, widest, kAttendColumns);
  const std::int64_t width = std::int64_t{kAttendColumns} * job.split.lanes;
  job.chunks = static_cast<std::int32_t>((widest + width - 1) / width);
  Grid grid = cover_by_warps(job.csr.rows * ((job.heads + job.split.heads - 1) / job.split.heads),
                             kAttendWarps * kWarp);
  grid.shared_bytes = kAttendWarps * kWarp * sizeof(float);
  launch(queue, "sum rows by attention", attend_kernel<kBits, kUnit>, grid, job);
}

/// Starts the kernel for rows whose parts all begin at multiples of `unit` bytes.
template <int kBits>
void start_by_unit(Queue& queue, const AttentionJob& job, int unit) {
  constexpr int kUnit = kBits == 16 ? 2 : 4;
  if (unit >= kUnit) {
    start<kBits, kUnit>(queue, job);
  } else {
    start<kBits, 1>(queue, job);
  }
}

AttentionJob job_of(const CsrView& csr, const Attention& attention,
                    const AttentionTotals<float>& sums) {
  AttentionJob job;
  job.csr = csr;
  job.row_scores = attention.row_scores.data;
  job.row_scores_stride = attention.row_scores.stride;
  job.head_cols = sums.positive.cols / attention.heads;
  job.sums = sums;
  job.dropout = attention.dropout;
  job.keep_scale = attention.dropout.scale();
  job.slope = attention.slope;
  job.heads = attention.heads;
  job.backward = attention.backward;
  job.shared = attention.shared;
  job.own_rows = attention.own_rows;
  return job;
}

}  // namespace

void attention_inner(Queue& queue, const CsrView& csr, const Attention& attention,
                     ConstMatrixView x, ConstMatrixView exact, const AttentionTotals<float>& sums) {
  AttentionJob job = job_of(csr, attention, sums);
  job.rows = reinterpret_cast<const std::byte*>(x.data);
  job.pitch = static_cast<std::uint32_t>(x.stride * 4);
  job.exact = reinterpret_cast<const std::byte*>(exact.data);
  job.exact_pitch = static_cast<std::uint32_t>(exact.stride * 4);
  job.cols = x.cols;
  job.overwrites = true;
  start<32, 4>(queue, job);
}

void attention_halo(Queue& queue, const CsrView& csr, const Attention& attention,
                    const PackedRows& packed, const AttentionTotals<float>& sums) {
  AttentionJob job = job_of(csr, attention, sums);
  job.rows = packed.data;
  job.pitch = static_cast<std::uint32_t>(packed.stride);
  const std::size_t exact_begin = packed.format.exact_begin(packed.cols);
  job.exact = packed.data + exact_begin;
  job.exact_pitch = job.pitch;
  job.head_bytes = static_cast<std::uint32_t>(packed.format.group_bytes(packed.cols));
  job.parameter_bytes = static_cast<std::int32_t>(packed.format.parameter_bytes());
  job.first = packed.col_begin;
  job.cols = packed.cols;
  job.counts = packed.col_begin == 0;
  const int unit =
      alignment_of(packed.data,
                   job.pitch | static_cast<std::int64_t>(exact_begin) | job.parameter_bytes |
                       (packed.format.groups > 1 ? job.head_bytes : 0),
                   4);
  switch (packed.format.bits) {
    case 1:
      return start_by_unit<1>(queue, job, unit);
    case 2:
      return start_by_unit<2>(queue, job, unit);
    case 4:
      return start_by_unit<4>(queue, job, unit);
    case 8:
      return start_by_unit<8>(queue, job, unit);
    case 16:
      return start_by_unit<16>(queue, job, unit);
    default:
      return start_by_unit<32>(queue, job, unit);
  }
}

}  // namespace heliograph::cuda
