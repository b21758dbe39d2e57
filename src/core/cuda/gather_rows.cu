// A row is read once an entry, so each kernel is bound by entries x cols x 4 (or 2) bytes, from
// memory or, as far as rows are shared, from the second-level cache. Beside them it reads 4 bytes
// an entry (8 with a scale) and writes the output once.

#include <bit>

#include "core/cuda/gather_rows.hpp"
#include "core/cuda/wide.hpp"
#include "core/packed_rows.hpp"

namespace heliograph::cuda {
namespace {

/// Rows whose loads are under way at the same time, to cover their latency.
constexpr int kAhead = 8;

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

/// kLanes lanes an output row and kLanes * kColumns columns of it, for all rows, then the next
/// columns: fewer bytes of each row compete for the cache at a time.
template <class Values, int kColumns, int kUnit, int kLanes>
__global__ void gather_kernel(GatherJob job, bool wide_out) {
  const std::int64_t thread = global_thread();
  std::int64_t row = thread / kLanes;
  std::int64_t column = thread % kLanes * kColumns;
  while (row >= job.csr.rows) {
    row -= job.csr.rows;
    column += kLanes * kColumns;
  }
  if (column >= job.cols) return;
  const std::int64_t begin = job.csr.offsets[row];
  const std::int64_t end = job.csr.offsets[row + 1];
  if (job.add && begin == end) return;

  const std::byte* rows = job.rows + column * Values::kBytes;
  const auto pitch = static_cast<std::uint32_t>(job.pitch);
  float sum[kColumns] = {};
  if (job.self) {
    Piece<Values, kColumns, kUnit> own;
    own.load(row_at(rows, static_cast<std::int32_t>(row), pitch));
    const float scale = job.col_scale == nullptr ? 1.0F : job.col_scale[row];
    for (int i = 0; i < kColumns; ++i) sum[i] = scale * own.value(i);
  }
  for (std::int64_t e = begin; e < end; e += kAhead) {
    Piece<Values, kColumns, kUnit> pieces[kAhead];
    float scales[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      scales[k] = 1.0F;
      if (e + k < end) {
        const std::int32_t j = job.csr.columns[e + k];
        pieces[k].load(row_at(rows, j, pitch));
        if (job.col_scale != nullptr) scales[k] = job.col_scale[j];
      }
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (e + k < end) {
        for (int i = 0; i < kColumns; ++i) sum[i] += scales[k] * pieces[k].value(i);
      }
    }
  }

  const float scale = job.row_scale == nullptr ? 1.0F : job.row_scale[row];
  float* out = job.out + row * job.out_stride + column;
  if (kColumns % 4 == 0 && wide_out && column + kColumns <= job.cols) {
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
    if (column + i >= job.cols) break;
    const float value = scale * sum[i];
    out[i] = job.add ? out[i] + value : value;
  }
}

template <class Values, int kColumns, int kUnit, int kLanes>
void start(Queue& queue, const GatherJob& job) {
  constexpr std::int64_t kWidth = kLanes * kColumns;
  const std::int64_t chunks = (job.cols + kWidth - 1) / kWidth;
  const bool wide_out = alignment_of(job.out, job.out_stride * 4, 16) == 16;
  launch(queue, "aggregate rows", gather_kernel<Values, kColumns, kUnit, kLanes>,
         cover(job.csr.rows * chunks * kLanes), job, wide_out);
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
