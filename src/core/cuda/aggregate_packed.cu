// Sums of packed rows, decoded in registers. A warp computes up to 256 columns of an output row. A
// lane sums eight of them: for each entry it reads one word (two from 4 bits on), which holds their
// codes. If fewer lanes have columns, groups of lanes take the entries in turn, and their sums are
// added at the end. With 1 bit and 256 columns an entry costs 36 bytes, from the second-level cache
// if the packed rows fit it, and 16 instructions (28 with 2 bits, 34 with 4, 30 with 8); with 128
// columns about half as many. Instructions are the bound up to 4 bits, bytes from 8 bits on.

#include <limits>

#include "core/cuda/aggregate.hpp"
#include "core/cuda/gather_rows.hpp"
#include "core/cuda/packed_codes.hpp"
#include "core/cuda/wide.hpp"

namespace heliograph::cuda {
namespace {

constexpr int kPackedWarps = 8;  // warps of a block
/// Number of rows that a lane loads at the same time, to cover the latency of memory.
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

/// Sums of one chunk of columns in the registers of a warp. kLanes lanes share the columns, and the
/// groups of so many lanes take the entries in turn. kWhole is a chunk of 256 columns that another
/// may follow. kUnit is the alignment of words in bytes: 4 (2 with 1 bit) or 1; with 1, offsets of
/// rows may also exceed 32 bits.
template <int kBits, int kLanes, bool kWhole, int kUnit>
class ChunkSum {
 public:
  using Offset = std::conditional_t<kUnit == 1, std::uint64_t, std::uint32_t>;
  __device__ ChunkSum(const HaloJob& job, std::int64_t first) : first_(first) {
    const std::byte* begin = job.data + job.parameter_bytes + first * kBits / 8;
    for (int w = 0; w < Words::kWords; ++w) {
      // Lanes without columns read what the first lane reads. The words of whole chunks lie a
      // constant distance apart, which takes no instruction.
      const bool reads = kWhole || first + Words::position(mine_, w, 0) < job.cols;
      data_[w] = reads ? begin + Words::byte(mine_, 0) + w * Words::byte(0, 1) : begin;
    }
  }

  /// Adds the entries [begin, end); `entries` is the warp's shared memory.
  __device__ void add(const HaloJob& job, std::int64_t begin, std::int64_t end,
                      Entry<Offset>* entries) {
    for (std::int64_t e = begin; e < end; e += kWarp) {
      // Each lane reads the parameters of one of the next 32 entries; lanes past the last entry
      // repeat it with a step of 0.
      const int count = end - e < kWarp ? static_cast<int>(end - e) : kWarp;
      __syncwarp();
      entries[lane() % kGroups * kLanes + lane() / kGroups] =
          entry(job, e + (lane() < count ? lane() : count - 1), lane() < count);
      __syncwarp();
      const Entry<Offset>* mine = entries + lane() / kLanes * kLanes;
      for (int k = 0; k * kGroups < count; k += kAhead) add(mine + k);
    }
  }

  /// Stores the warp's sums in shared memory.
  __device__ void put(Shared<Offset>& shared, int warp) {
    for (int i = 0; i < kLaneCodes; ++i) shared.sums[warp][i][lane()] = sum_[i];
    minimum_ = warp_sum(minimum_);
    if (lane() == 0) shared.minimum[warp] = minimum_;
  }
  /// Replaces the sums by the total of those that all warps stored, in their order.
  __device__ void take(const Shared<Offset>& shared) {
    for (int i = 0; i < kLaneCodes; ++i) {
      sum_[i] = 0;
      for (int w = 0; w < kPackedWarps; ++w) sum_[i] += shared.sums[w][i][lane()];
    }
    minimum_ = 0;
    for (int w = 0; w < kPackedWarps; ++w) minimum_ += lane() == 0 ? shared.minimum[w] : 0.0F;
  }

  __device__ void write(const HaloJob& job, std::int64_t row) {
    const float minimum = warp_sum(minimum_);
    const float scale = job.row_scale == nullptr ? 1.0F : job.row_scale[row];
    float* out = job.out + row * job.out_stride;
    for (float& sum : sum_) sum = sum_of_groups(sum);
    if (lane() >= kLanes) return;
    for (int w = 0; w < Words::kWords; ++w) {
      const float* sum = sum_ + w * Words::kCodes;
      const auto position = [&](int i) { return first_ + Words::position(mine_, w, i); };
      if (kBits == 8 && job.wide_out && position(3) < job.cols) {
        auto* to = reinterpret_cast<Wide<float, 4>*>(out + position(0));
        Wide<float, 4> result = *to;
        for (int i = 0; i < 4; ++i) result.at[i] += scale * (sum[i] + minimum);
        *to = result;
        continue;
      }
      const CodeBlock block(kBits, kWhole ? first_ + kChunk : job.cols, position(0));
      for (int i = 0; i < Words::kCodes; ++i) {
        if (kWhole || position(i) < job.cols) {
          out[block.column(position(i))] += scale * (sum[i] + minimum);
        }
      }
    }
  }

 private:
  using Words = CodeWords<kBits, kLanes>;
  static constexpr int kGroups = kWarp / kLanes;
  static constexpr int kAhead = kLanes < kPackedAhead ? kLanes : kPackedAhead;
  static constexpr int kEntryPair = 16 / sizeof(Entry<Offset>);
  static constexpr int kTogether = kAhead < kEntryPair ? kAhead : kEntryPair;

  /// The sum over the groups, in a fixed order.
  __device__ static float sum_of_groups(float sum) {
    for (int step = kWarp / 2; step >= kLanes; step /= 2) {
      sum += __shfl_xor_sync(kWholeWarp, sum, step);
    }
    return sum;
  }
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
    std::uint32_t words[kAhead][Words::kWords];
    Entry<Offset> these[kAhead];
    load_pairs(entries, these);
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      for (int w = 0; w < Words::kWords; ++w) {
        words[u][w] = load_bytes<Words::kBytes, kUnit>(data_[w] + these[u].offset);
      }
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      for (int w = 0; w < Words::kWords; ++w) {
        add_codes<Words, kBits>(words[u][w], Words::bit(mine_), these[u].step,
                                sum_ + w * Words::kCodes);
      }
    }
  }
  /// Loads kAhead entries, two at a time, or one at a time if they are large.
  __device__ static void load_pairs(const Entry<Offset>* from, Entry<Offset>* to) {
#pragma unroll
    for (int u = 0; u < kAhead; u += kTogether) {
      const auto some = load_wide<Entry<Offset>, kTogether>(from + u);
      for (int i = 0; i < kTogether; ++i) to[u + i] = some.at[i];
    }
  }

  std::int64_t first_;                    ///< First column of the chunk.
  int mine_ = lane() % kLanes;            ///< Number of the lane in its group.
  const std::byte* data_[Words::kWords];  ///< The lane's words of the first packed row.
  float sum_[kLaneCodes] = {};
  float minimum_ = 0;  ///< Sum of the minima of this lane's entries.
};

/// Each warp sums one chunk of a row; then all warps of a block sum each of its long rows.
template <int kBits, int kLanes, bool kWhole, int kUnit>
__global__ void halo_kernel(HaloJob job) {
  using Sum = ChunkSum<kBits, kLanes, kWhole, kUnit>;
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

template <int kBits, int kLanes, bool kWhole, int kUnit>
void start_chunks(Queue& queue, const HaloJob& job) {
  using Sum = ChunkSum<kBits, kLanes, kWhole, kUnit>;
  Grid grid = cover_by_warps(job.csr.rows * job.chunks, kPackedWarps * kWarp);
  grid.shared_bytes = sizeof(Shared<typename Sum::Offset>);
  launch(queue, "aggregate packed rows", halo_kernel<kBits, kLanes, kWhole, kUnit>, grid, job);
}

/// Starts the kernel for the last chunk, of `cols` columns, with kLanes lanes or as many more as it
/// needs.
template <int kBits, int kLanes, int kUnit>
void start_last(Queue& queue, const HaloJob& job, std::int64_t cols) {
  if constexpr (kLanes < kWarp) {
    if (cols > kLanes * kLaneCodes) return start_last<kBits, 2 * kLanes, kUnit>(queue, job, cols);
  }
  start_chunks<kBits, kLanes, false, kUnit>(queue, job);
}

template <int kBits, int kUnit>
void start(Queue& queue, HaloJob job) {
  job.chunks = job.cols / kChunk;
  job.wide_out = alignment_of(job.out, job.out_stride * 4, 16) == 16;
  start_chunks<kBits, kWarp, true, kUnit>(queue, job);
  job.first = job.chunks * kChunk;
  if (job.first == job.cols) return;
  job.chunks = 1;
  start_last<kBits, 2, kUnit>(queue, job, job.cols - job.first);
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
