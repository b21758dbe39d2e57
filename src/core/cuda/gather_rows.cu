// Each entry reads a row, so the kernels are bound by entries x cols x 4 (or 2) bytes from memory
// or, for rows that several entries share, from the second-level cache. In addition they read 4
// bytes an entry (8 with a scale, 4 more with a value) and write the output once.

#include <bit>

#include "core/cuda/gather_rows.hpp"
#include "core/cuda/wide.hpp"
#include "core/packed_rows.hpp"

namespace heliograph::cuda {
namespace {

constexpr int kGatherThreads = 256;  // threads of a block
/// Number of rows that are loaded at the same time, to cover the latency of memory.
constexpr int kGatherAhead = 8;
/// A row with more entries is summed by a whole block, since few lanes could take longest of all.
constexpr std::int64_t kLongGather = 512;
constexpr int kLongAhead = 16;

struct Fp32Values {
  static constexpr int kBytes = 4;
};
struct Bf16Values {
  static constexpr int kBytes = 2;
};

/// kColumns neighbouring values of a row, aligned to kUnit bytes.
template <class Values, int kColumns, int kUnit>
struct Piece {
  static constexpr int kBytes = Values::kBytes * kColumns;
  static constexpr int kWords = (kBytes + 3) / 4;
  std::uint32_t words[kWords] = {};

  __device__ void load(const std::byte* from) {
    if constexpr (kBytes <= kUnit && kWords > 1) {
      const auto all = load_wide<std::uint32_t, kWords>(from);
      for (int i = 0; i < kWords; ++i) words[i] = all.at[i];
    } else {
      static_assert(kColumns == 1 || kBytes == kUnit);
      words[0] = load_bytes<kBytes, kUnit>(from);
    }
  }
  __device__ float value(int i) const {
    if constexpr (Values::kBytes == 4) return std::bit_cast<float>(words[i]);
    return bf16_to_float(static_cast<std::uint16_t>(words[i / 2] >> (i % 2 * 16)));
  }
};

/// Columns of an output row, from `column` on, and the row's entries [begin, end). All rows come
/// before the next columns, so that fewer bytes of each row compete for the cache.
struct RowSlice {
  std::int64_t row;
  std::int64_t column = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool there = false;

  /// The slice that group number `group` of lanes sums; it is `width` columns wide.
  __device__ RowSlice(const GatherJob& job, std::int64_t group, std::int64_t width) : row(group) {
    while (row >= job.csr.rows) {
      row -= job.csr.rows;
      column += width;
    }
    if (column >= job.cols) return;
    begin = job.csr.offsets[row];
    end = job.csr.offsets[row + 1];
    there = !job.add || begin < end;
  }
};

/// The factor of row j as a node's own row.
__device__ float scale_of(const GatherJob& job, std::int64_t j) {
  return job.col_scale == nullptr ? 1.0F : job.col_scale[j];
}
/// The factor of row j in entry e.
__device__ float scale_of(const GatherJob& job, std::int64_t j, std::int64_t e) {
  const float scale = scale_of(job, j);
  return job.csr.values == nullptr ? scale : job.csr.values[e] * scale;
}
__device__ void store(const GatherJob& job, float* out, float value) {
  *out = job.add ? *out + value : value;
}

/// One lane sums kColumns columns of a row.
template <class Values, int kColumns, int kUnit>
__device__ void gather(const GatherJob& job, const RowSlice& slice, bool wide_out) {
  const std::byte* rows = job.rows + slice.column * Values::kBytes;
  const auto pitch = static_cast<std::uint32_t>(job.pitch);
  float sum[kColumns] = {};
  if (job.self != 0) {
    Piece<Values, kColumns, kUnit> own;
    own.load(row_at(rows, static_cast<std::int32_t>(slice.row), pitch));
    const float scale = scale_of(job, slice.row);
    for (int i = 0; i < kColumns; ++i) sum[i] = job.self * (scale * own.value(i));
  }
  for (std::int64_t e = slice.begin; e < slice.end; e += kGatherAhead) {
    Piece<Values, kColumns, kUnit> pieces[kGatherAhead];
    float scales[kGatherAhead] = {};
#pragma unroll
    for (int k = 0; k < kGatherAhead; ++k) {
      if (e + k < slice.end) {
        const std::int32_t j = job.csr.columns[e + k];
        pieces[k].load(row_at(rows, j, pitch));
        scales[k] = scale_of(job, j, e + k);
      }
    }
#pragma unroll
    for (int k = 0; k < kGatherAhead; ++k) {
      if (e + k < slice.end) {
        for (int i = 0; i < kColumns; ++i) sum[i] += scales[k] * pieces[k].value(i);
      }
    }
  }

  const float scale = job.row_scale == nullptr ? 1.0F : job.row_scale[slice.row];
  float* out = job.out + slice.row * job.out_stride + slice.column;
  if (kColumns % 4 == 0 && wide_out && slice.column + kColumns <= job.cols) {
    for (int i = 0; i < kColumns; i += 4) {
      auto* to = reinterpret_cast<Wide<float, 4>*>(out + i);
      Wide<float, 4> result = {};
      if (job.add) result = *to;
      for (int k = 0; k < 4 && i + k < kColumns; ++k) {
        const float value = scale * sum[i + k];
        result.at[k] = job.add ? result.at[k] + value : value;
      }
      *to = result;
    }
    return;
  }
  for (int i = 0; i < kColumns; ++i) {
    if (slice.column + i < job.cols) store(job, out + i, scale * sum[i]);
  }
}

/// Each lane sums one column of a long row. 16 rows and the numbers of the next 32 are in flight.
template <class Values, int kUnit>
__device__ void gather_long(const GatherJob& job, const RowSlice& slice) {
  constexpr int kValueUnit = kUnit < Values::kBytes ? 1 : Values::kBytes;
  using Value = Piece<Values, 1, kValueUnit>;
  const bool mine = slice.column < job.cols;
  const std::byte* rows = job.rows + (mine ? slice.column : 0) * Values::kBytes;
  const auto pitch = static_cast<std::uint32_t>(job.pitch);
  float sum = 0;
  if (job.self != 0) {
    Value own;
    own.load(row_at(rows, static_cast<std::int32_t>(slice.row), pitch));
    sum = job.self * (scale_of(job, slice.row) * own.value(0));
  }
  const auto number = [&](std::int64_t e) { return e < slice.end ? job.csr.columns[e] : 0; };
  std::int32_t next = number(slice.begin + lane());
  for (std::int64_t e = slice.begin; e < slice.end; e += kWarp) {
    const std::int32_t j = next;
    const float scale = e + lane() < slice.end ? scale_of(job, j, e + lane()) : 0.0F;
    next = number(e + kWarp + lane());
    for (int half = 0; half < kWarp; half += kLongAhead) {
      Value values[kLongAhead];
#pragma unroll
      for (int k = 0; k < kLongAhead; ++k) {
        values[k].load(row_at(rows, __shfl_sync(kWholeWarp, j, half + k), pitch));
      }
#pragma unroll
      for (int k = 0; k < kLongAhead; ++k) {
        const float scale_k = __shfl_sync(kWholeWarp, scale, half + k);
        if (e + half + k < slice.end) sum += scale_k * values[k].value(0);
      }
    }
  }
  const float scale = job.row_scale == nullptr ? 1.0F : job.row_scale[slice.row];
  if (mine) store(job, job.out + slice.row * job.out_stride + slice.column, scale * sum);
}

/// kLanes lanes sum an output row; then a block sums each of its long rows, one lane a column.
template <class Values, int kColumns, int kUnit, int kLanes>
__global__ void __launch_bounds__(kGatherThreads, 4) gather_kernel(GatherJob job, bool wide_out) {
  constexpr std::int64_t kWidth = kLanes * kColumns;
  constexpr int kGroups = kGatherThreads / kLanes;
  static_assert(kGroups <= kWarp && kWidth <= kGatherThreads);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kGroups;
  const auto thread = static_cast<int>(threadIdx.x);
  RowSlice mine(job, first + thread / kLanes, kWidth);
  mine.column += thread % kLanes * kColumns;
  if (mine.there && mine.column < job.cols && mine.end - mine.begin <= kLongGather) {
    gather<Values, kColumns, kUnit>(job, mine, wide_out);
  }
  // Every warp looks at the rows of the whole block, so that all agree on the long ones.
  const RowSlice theirs(job, first + lane() % kGroups, kWidth);
  unsigned is_long = __ballot_sync(kWholeWarp, theirs.end - theirs.begin > kLongGather);
  for (int group = 0; group < kGroups; ++group) {
    if ((is_long & (1U << group)) == 0) continue;
    RowSlice slice(job, first + group, kWidth);
    if (thread / kWarp * kWarp >= kWidth) break;
    slice.column += thread;
    gather_long<Values, kUnit>(job, slice);
  }
}

template <class Values, int kColumns, int kUnit, int kLanes>
void start(Queue& queue, const GatherJob& job) {
  constexpr std::int64_t kWidth = kLanes * kColumns;
  const std::int64_t chunks = (job.cols + kWidth - 1) / kWidth;
  const bool wide_out = alignment_of(job.out, job.out_stride * 4, 16) == 16;
  launch(queue, "aggregate rows", gather_kernel<Values, kColumns, kUnit, kLanes>,
         cover(job.csr.rows * chunks * kLanes, kGatherThreads), job, wide_out);
}

/// For rows aligned to 16 bytes: about as many lanes as a row has pieces of 16 bytes.
template <class Values>
void start_wide(Queue& queue, const GatherJob& job) {
  constexpr int kColumns = 16 / Values::kBytes;
  if (job.cols <= 8 * kColumns) {
    start<Values, kColumns, 16, 8>(queue, job);
  } else if (job.cols <= 16 * kColumns) {
    start<Values, kColumns, 16, 16>(queue, job);
  } else {
    start<Values, kColumns, 16, kWarp>(queue, job);
  }
}

}  // namespace

void gather_fp32(Queue& queue, const GatherJob& job) {
  const int unit = alignment_of(job.rows, job.pitch, 16);
  if (unit == 16) {
    start_wide<Fp32Values>(queue, job);
  } else if (unit >= 4) {
    start<Fp32Values, 1, 4, kWarp>(queue, job);
  } else {
    start<Fp32Values, 1, 1, kWarp>(queue, job);
  }
}

void gather_bf16(Queue& queue, const GatherJob& job) {
  const int unit = alignment_of(job.rows, job.pitch, 16);
  if (unit == 16) {
    start_wide<Bf16Values>(queue, job);
  } else if (unit >= 4) {
    start<Bf16Values, 2, 4, kWarp>(queue, job);
  } else if (unit >= 2) {
    start<Bf16Values, 1, 2, kWarp>(queue, job);
  } else {
    start<Bf16Values, 1, 1, kWarp>(queue, job);
  }
}

}  // namespace heliograph::cuda
