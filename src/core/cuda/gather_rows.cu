// A row is read once an entry, so each kernel is bound by entries x cols x 4 (or 2) bytes, from
// memory or, as far as rows are shared, from the second-level cache. Beside them it reads 4 bytes
// an entry (8 with a scale) and writes the output once.

#include <bit>

#include "core/cuda/gather_rows.hpp"
#include "core/cuda/wide.hpp"
#include "core/packed_rows.hpp"

namespace heliograph::cuda {
namespace {

constexpr int kThreads = 256;  // of a block
/// Rows whose loads are under way at the same time, to cover their latency.
constexpr int kAhead = 8;
/// Rows of more entries are summed by the whole block: by few lanes they could outlast all others.
constexpr std::int64_t kLongRow = 512;
constexpr int kLongAhead = 16;

struct Fp32Values {
  static constexpr int kBytes = 4;
};
struct Bf16Values {
  static constexpr int kBytes = 2;
};

/// kColumns neighbouring values of a row at an address that is a multiple of kUnit.
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

/// An output row, its entries, and the first of the columns that somebody sums. All rows come
/// first, then the next columns: fewer bytes of each row compete for the cache at a time.
struct RowPlace {
  std::int64_t row;
  std::int64_t column = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool there = false;

  /// Of group `group` of lanes, which sums `width` columns.
  __device__ RowPlace(const GatherJob& job, std::int64_t group, std::int64_t width) : row(group) {
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

/// What row i itself and row j count.
__device__ float scale_of(const GatherJob& job, std::int64_t j) {
  return job.col_scale == nullptr ? 1.0F : job.col_scale[j];
}
__device__ void store(const GatherJob& job, float* out, float value) {
  *out = job.add ? *out + value : value;
}

/// kColumns columns of a row, by one lane.
template <class Values, int kColumns, int kUnit>
__device__ void gather(const GatherJob& job, const RowPlace& place, bool wide_out) {
  const std::byte* rows = job.rows + place.column * Values::kBytes;
  const auto pitch = static_cast<std::uint32_t>(job.pitch);
  float sum[kColumns] = {};
  if (job.self != 0) {
    Piece<Values, kColumns, kUnit> own;
    own.load(row_at(rows, static_cast<std::int32_t>(place.row), pitch));
    const float scale = scale_of(job, place.row);
    for (int i = 0; i < kColumns; ++i) sum[i] = job.self * (scale * own.value(i));
  }
  for (std::int64_t e = place.begin; e < place.end; e += kAhead) {
    Piece<Values, kColumns, kUnit> pieces[kAhead];
    float scales[kAhead] = {};
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (e + k < place.end) {
        const std::int32_t j = job.csr.columns[e + k];
        pieces[k].load(row_at(rows, j, pitch));
        scales[k] = scale_of(job, j);
      }
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (e + k < place.end) {
        for (int i = 0; i < kColumns; ++i) sum[i] += scales[k] * pieces[k].value(i);
      }
    }
  }

  const float scale = job.row_scale == nullptr ? 1.0F : job.row_scale[place.row];
  float* out = job.out + place.row * job.out_stride + place.column;
  if (kColumns % 4 == 0 && wide_out && place.column + kColumns <= job.cols) {
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
    if (place.column + i < job.cols) store(job, out + i, scale * sum[i]);
  }
}

/// One column of a long row by each lane: 16 rows are under way, and the numbers of the next 32.
template <class Values, int kUnit>
__device__ void gather_long(const GatherJob& job, const RowPlace& place) {
  constexpr int kValueUnit = kUnit < Values::kBytes ? 1 : Values::kBytes;
  using Value = Piece<Values, 1, kValueUnit>;
  const bool mine = place.column < job.cols;
  const std::byte* rows = job.rows + (mine ? place.column : 0) * Values::kBytes;
  const auto pitch = static_cast<std::uint32_t>(job.pitch);
  float sum = 0;
  if (job.self != 0) {
    Value own;
    own.load(row_at(rows, static_cast<std::int32_t>(place.row), pitch));
    sum = job.self * (scale_of(job, place.row) * own.value(0));
  }
  const auto number = [&](std::int64_t e) { return e < place.end ? job.csr.columns[e] : 0; };
  std::int32_t next = number(place.begin + lane());
  for (std::int64_t e = place.begin; e < place.end; e += kWarp) {
    const std::int32_t j = next;
    const float scale = scale_of(job, j);
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
        if (e + half + k < place.end) sum += scale_k * values[k].value(0);
      }
    }
  }
  const float scale = job.row_scale == nullptr ? 1.0F : job.row_scale[place.row];
  if (mine) store(job, job.out + place.row * job.out_stride + place.column, scale * sum);
}

/// kLanes lanes an output row; then the block's long rows, a lane a column.
template <class Values, int kColumns, int kUnit, int kLanes>
__global__ void __launch_bounds__(kThreads, 4) gather_kernel(GatherJob job, bool wide_out) {
  constexpr std::int64_t kWidth = kLanes * kColumns;
  constexpr int kGroups = kThreads / kLanes;
  static_assert(kGroups <= kWarp && kWidth <= kThreads);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kGroups;
  const auto thread = static_cast<int>(threadIdx.x);
  RowPlace mine(job, first + thread / kLanes, kWidth);
  mine.column += thread % kLanes * kColumns;
  if (mine.there && mine.column < job.cols && mine.end - mine.begin <= kLongRow) {
    gather<Values, kColumns, kUnit>(job, mine, wide_out);
  }
  // Every warp looks at the rows of all.
  const RowPlace theirs(job, first + lane() % kGroups, kWidth);
  unsigned is_long = __ballot_sync(kWholeWarp, theirs.end - theirs.begin > kLongRow);
  for (int group = 0; group < kGroups; ++group) {
    if ((is_long & (1U << group)) == 0) continue;
    RowPlace place(job, first + group, kWidth);
    if (thread / kWarp * kWarp >= kWidth) break;
    place.column += thread;
    gather_long<Values, kUnit>(job, place);
  }
}

template <class Values, int kColumns, int kUnit, int kLanes>
void start(Queue& queue, const GatherJob& job) {
  constexpr std::int64_t kWidth = kLanes * kColumns;
  const std::int64_t chunks = (job.cols + kWidth - 1) / kWidth;
  const bool wide_out = alignment_of(job.out, job.out_stride * 4, 16) == 16;
  launch(queue, "aggregate rows", gather_kernel<Values, kColumns, kUnit, kLanes>,
         cover(job.csr.rows * chunks * kLanes, kThreads), job, wide_out);
}

/// Rows on 16 bytes: as many lanes as a row has pieces of 16 bytes.
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
