// Sums of packed rows, decoded in registers. A warp computes 256 columns of an output row; for each
// entry, a lane reads one word, which holds the codes of all its columns. With 1 bit and 256
// columns an entry costs 36 bytes, from the second-level cache if the packed rows fit it, and 16
// instructions (29 with 2 bits, 36 with 4, 30 with 8). Instructions are the bound up to 4 bits,
// bytes from 8 bits on.

#include <limits>

#include "core/cuda/aggregate.hpp"
#include "core/cuda/gather_rows.hpp"
#include "core/cuda/packed_codes.hpp"
#include "core/cuda/wide.hpp"

namespace heliograph::cuda {
namespace {

constexpr int kPackedWarps = 8;  // warps of a block
/// Number of rows that are loaded at the same time, to cover the latency of memory.
constexpr int kPackedAhead = 8;
/// A row with more entries is summed by a whole block, since one warp could take longest of all.
constexpr std::int64_t kLongPacked = 512;

struct HaloJob {
  CsrView csr;
  const std::byte* data = nullptr;
  std::uint32_t row_bytes = 0;
  std::int32_t parameter_bytes = 0;
  std::int64_t cols = 0;
  const float* row_scale = nullptr;
  float* out = nullptr;  ///< The first packed column of output row 0.
  std::int64_t out_stride = 0;
  std::int64_t first = 0;   ///< First column of the first chunk.
  std::int64_t chunks = 0;  ///< Chunks of each row.
  bool wide_out = false;    ///< Whether output rows are aligned to 16 bytes.
};

/// One entry as a warp sums it: the offset in bytes of its packed row, and the row's step times the
/// entry's value.
template <class Offset>
struct alignas(2 * sizeof(Offset)) Entry {
  Offset offset;
  float step;
};

/// Shared memory of a block.
template <class Offset>
struct Shared {
  Entry<Offset> entries[kPackedWarps][kWarp];
  float sums[kPackedWarps][kLaneCodes][kWarp];
  float minimum[kPackedWarps];
};

/// One chunk of columns of an output row, and the row's entries [begin, end). Warps take all rows
/// of a chunk before the next chunk, so that fewer bytes of each row compete for the cache.
struct RowChunk {
  std::int64_t row;
  std::int64_t first;  ///< First column of the chunk.
  std::int64_t begin = 0;
  std::int64_t end = 0;  ///< Equals `begin` if there is no such row.

  __device__ RowChunk(const HaloJob& job, std::int64_t warp) : row(warp), first(job.first) {
    std::int64_t chunk = 0;
    while (row >= job.csr.rows) {
      row -= job.csr.rows;
      ++chunk;
    }
    if (chunk >= job.chunks) return;
    first += chunk * kChunk;
    begin = job.csr.offsets[row];
    end = job.csr.offsets[row + 1];
  }
};

/// Sums of one chunk of columns in the registers of a warp. kUnit is the alignment of words in
/// bytes: 4 (2 with 1 bit) or 1; with 1, offsets of rows may also exceed 32 bits.
template <int kBits, bool kLast, int kUnit>
class ChunkSum {
 public:
  using Offset = std::conditional_t<kUnit == 1, std::uint64_t, std::uint32_t>;
  __device__ ChunkSum(const HaloJob& job, std::int64_t first) {
    each<kParts>([&](auto part) {
      using PartOf = typename Parts::template PartOf<part()>;
      const bool present = !PartOf::kBlock || job.cols - first >= PartOf::kColumns;
      first_[part()] = first;
      active_[part()] = present && first + PartOf::column(lane(), 0) < job.cols;
      data_[part()] = job.data + job.parameter_bytes + first * kBits / 8 + PartOf::byte(lane());
      bit_[part()] = PartOf::bit(lane());
      if (present) first += PartOf::kColumns;
    });
  }

  /// Adds the entries [begin, end); `entries` is the warp's shared memory.
  __device__ void add(const HaloJob& job, std::int64_t begin, std::int64_t end,
                      Entry<Offset>* entries) {
    for (std::int64_t e = begin; e < end; e += kWarp) {
      // Each lane reads the parameters of one of the next 32 entries; lanes past the last entry
      // repeat it with a step of 0.
      const int count = end - e < kWarp ? static_cast<int>(end - e) : kWarp;
      __syncwarp();
      entries[lane()] = entry(job, e + (lane() < count ? lane() : count - 1), lane() < count);
      __syncwarp();
      for (int k = 0; k < count; k += kPackedAhead) add(entries + k);
    }
  }

  /// Stores the warp's sums in shared memory.
  __device__ void put(Shared<Offset>& shared, int warp) {
    each_code([&](auto /*part*/, int /*i*/, int code, float& sum) {
      shared.sums[warp][code][lane()] = sum;
    });
    minimum_ = warp_sum(minimum_);
    if (lane() == 0) shared.minimum[warp] = minimum_;
  }
  /// Replaces the sums by the total of those that all warps stored, in their order.
  __device__ void take(const Shared<Offset>& shared) {
    each_code([&](auto /*part*/, int /*i*/, int code, float& sum) {
      sum = 0;
      for (int w = 0; w < kPackedWarps; ++w) sum += shared.sums[w][code][lane()];
    });
    minimum_ = 0;
    for (int w = 0; w < kPackedWarps; ++w) minimum_ += lane() == 0 ? shared.minimum[w] : 0.0F;
  }

  __device__ void write(const HaloJob& job, std::int64_t row) {
    const float minimum = warp_sum(minimum_);
    const float scale = job.row_scale == nullptr ? 1.0F : job.row_scale[row];
    float* out = job.out + row * job.out_stride;
    each<kParts>([&](auto part) {
      using PartOf = typename Parts::template PartOf<part()>;
      if (!active_[part()]) return;
      const float* sum = sum_[part()];
      if (kBits == 8 && job.wide_out && first_[part()] + PartOf::column(lane(), 3) < job.cols) {
        auto* to =
            reinterpret_cast<Wide<float, 4>*>(out + first_[part()] + PartOf::column(lane(), 0));
        Wide<float, 4> result = *to;
        for (int i = 0; i < 4; ++i) result.at[i] += scale * (sum[i] + minimum);
        *to = result;
        return;
      }
      for (int i = 0; i < PartOf::kCodes; ++i) {
        const std::int64_t column = first_[part()] + PartOf::column(lane(), i);
        if (column < job.cols) out[column] += scale * (sum[i] + minimum);
      }
    });
  }

 private:
  using Parts = Chunk<kBits, kLast>;
  static constexpr int kParts = Parts::kParts;
  static constexpr int kTogether = 16 / sizeof(Entry<Offset>);

  __device__ Entry<Offset> entry(const HaloJob& job, std::int64_t e, bool counts) {
    Entry<Offset> result{};
    const auto j = static_cast<std::uint32_t>(job.csr.columns[e]);
    result.offset = static_cast<Offset>(j) * job.row_bytes;
    if (!counts) return result;
    const std::byte* parameters = job.data + result.offset;
    constexpr int kHalfUnit = kUnit < 2 ? 1 : 2;
    const auto half = [&](int at) {
      return static_cast<std::uint16_t>(load_bytes<2, kHalfUnit>(parameters + at));
    };
    const float value = job.csr.values == nullptr ? 1.0F : job.csr.values[e];
    result.step = value * step_to_float(half(job.parameter_bytes - 2));
    if (job.parameter_bytes == 4) minimum_ += value * bf16_to_float(half(0));
    return result;
  }
  __device__ void add(const Entry<Offset>* entries) {
    std::uint32_t words[kPackedAhead][kParts];
    Entry<Offset> these[kPackedAhead];
    load_pairs(entries, these);
#pragma unroll
    for (int u = 0; u < kPackedAhead; ++u) {
      each<kParts>([&](auto part) {
        using PartOf = typename Parts::template PartOf<part()>;
        words[u][part()] = 0;
        if (!kLast || active_[part()]) {
          words[u][part()] = load_bytes<PartOf::kWordBytes, kUnit>(data_[part()] + these[u].offset);
        }
      });
    }
#pragma unroll
    for (int u = 0; u < kPackedAhead; ++u) {
      each<kParts>([&](auto part) {
        add_codes<typename Parts::template PartOf<part()>, kBits>(words[u][part()], bit_[part()],
                                                                  these[u].step, sum_[part()]);
      });
    }
  }
  /// Loads kPackedAhead entries, two at a time, or one at a time if they are large.
  __device__ static void load_pairs(const Entry<Offset>* from, Entry<Offset>* to) {
#pragma unroll
    for (int u = 0; u < kPackedAhead; u += kTogether) {
      const auto some = load_wide<Entry<Offset>, kTogether>(from + u);
      for (int i = 0; i < kTogether; ++i) to[u + i] = some.at[i];
    }
  }
  template <class Body>
  __device__ void each_code(const Body& body) {
    int code = 0;
    each<kParts>([&](auto part) {
      using PartOf = typename Parts::template PartOf<part()>;
#pragma unroll
      for (int i = 0; i < PartOf::kCodes; ++i) body(part, i, code++, sum_[part()][i]);
    });
  }

  std::int64_t first_[kParts];
  const std::byte* data_[kParts];  ///< The lane's words of the first packed row.
  int bit_[kParts];
  bool active_[kParts];
  float sum_[kParts][kLaneCodes] = {};
  float minimum_ = 0;  ///< Sum of the minima of this lane's entries.
};

/// Each warp sums one chunk of a row; then all warps of a block sum each of its long rows.
template <int kBits, bool kLast, int kUnit>
__global__ void halo_kernel(HaloJob job) {
  using Sum = ChunkSum<kBits, kLast, kUnit>;
  auto& shared = *shared_memory<Shared<typename Sum::Offset>>();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const RowChunk mine(job, global_warp());
  const std::int64_t count = mine.end - mine.begin;
  if (count > 0 && count <= kLongPacked) {
    Sum sum(job, mine.first);
    sum.add(job, mine.begin, mine.end, shared.entries[warp]);
    sum.write(job, mine.row);
  }
  // Every warp looks at the rows of all warps, so that all agree on the long ones.
  const RowChunk theirs(job, global_warp() - warp + lane() % kPackedWarps);
  const unsigned is_long = __ballot_sync(kWholeWarp, theirs.end - theirs.begin > kLongPacked);
  for (int w = 0; w < kPackedWarps; ++w) {
    if ((is_long & (1U << w)) == 0) continue;
    const RowChunk row(job, global_warp() - warp + w);
    const std::int64_t share = (row.end - row.begin + kPackedWarps - 1) / kPackedWarps;
    const std::int64_t begin = row.begin + share * warp;
    Sum sum(job, row.first);
    sum.add(job, begin, begin + share < row.end ? begin + share : row.end, shared.entries[warp]);
    sum.put(shared, warp);
    __syncthreads();
    if (warp == w) {
      sum.take(shared);
      sum.write(job, row.row);
    }
    __syncthreads();
  }
}

template <int kBits, int kUnit>
void start(Queue& queue, HaloJob job) {
  const auto grid = [&] {
    Grid all = cover_by_warps(job.csr.rows * job.chunks, kPackedWarps * kWarp);
    all.shared_bytes = sizeof(Shared<typename ChunkSum<kBits, false, kUnit>::Offset>);
    return all;
  };
  job.chunks = job.cols / kChunk;
  job.wide_out = alignment_of(job.out, job.out_stride * 4, 16) == 16;
  launch(queue, "aggregate packed rows", halo_kernel<kBits, false, kUnit>, grid(), job);
  if (job.chunks * kChunk == job.cols) return;
  job.first = job.chunks * kChunk;
  job.chunks = 1;
  launch(queue, "aggregate packed rows", halo_kernel<kBits, true, kUnit>, grid(), job);
}

/// Starts the kernel for the alignment of the packed rows, of which there are `rows`.
template <int kBits>
void start_by_layout(Queue& queue, const HaloJob& job, std::int64_t rows) {
  constexpr int kUnit = kBits == 1 ? 2 : 4;
  const bool aligned =
      alignment_of(job.data, job.row_bytes | static_cast<std::uint32_t>(job.parameter_bytes),
                   kUnit) == kUnit;
  const bool near = rows <= std::numeric_limits<std::uint32_t>::max() / job.row_bytes;
  if (aligned && near) {
    start<kBits, kUnit>(queue, job);
  } else {
    start<kBits, 1>(queue, job);
  }
}

void aggregate_codes(Queue& queue, const CsrView& csr, const PackedRows& packed,
                     const float* row_scale, MatrixView out) {
  HaloJob job;
  job.csr = csr;
  job.data = packed.data;
  job.row_bytes = static_cast<std::uint32_t>(packed.stride);
  job.parameter_bytes = static_cast<std::int32_t>(packed.format.parameter_bytes());
  job.cols = packed.cols;
  job.row_scale = row_scale;
  job.out = out.data + packed.col_begin;
  job.out_stride = out.stride;
  switch (packed.format.bits) {
    case 1:
      return start_by_layout<1>(queue, job, packed.rows);
    case 2:
      return start_by_layout<2>(queue, job, packed.rows);
    case 4:
      return start_by_layout<4>(queue, job, packed.rows);
    default:
      return start_by_layout<8>(queue, job, packed.rows);
  }
}

}  // namespace

void aggregate_halo(Queue& queue, const CsrView& csr, const PackedRows& packed,
                    const float* row_scale, MatrixView out) {
  if (packed.format.is_codes()) {
    for (int g = 0; g < packed.format.groups; ++g) {
      aggregate_codes(queue, csr, packed.group(g), row_scale, out);
    }
    return;
  }
  GatherJob job;
  job.csr = csr;
  job.rows = packed.data;
  job.pitch = static_cast<std::int64_t>(packed.stride);
  job.cols = packed.cols;
  job.row_scale = row_scale;
  job.out = out.data + packed.col_begin;
  job.out_stride = out.stride;
  job.add = true;
  if (packed.format.bits == 16) {
    gather_bf16(queue, job);
  } else {
    gather_fp32(queue, job);
  }
}

}  // namespace heliograph::cuda
