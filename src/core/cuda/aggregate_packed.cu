// Sums of packed rows, decoded in registers. A warp takes 256 columns of an output row; each of its
// lanes reads one word of a block of codes an entry and finds there the codes of all of its
// columns. An entry costs 36 bytes at 1 bit and 256 columns, from the second-level cache where the
// packed rows fit it, and about two instructions a code: up to 4 bits these are the bound, from 8
// bits on the bytes.

#include <bit>
#include <utility>

#include "core/cuda/aggregate.hpp"
#include "core/cuda/gather_rows.hpp"
#include "core/cuda/wide.hpp"

namespace heliograph::cuda {
namespace {

/// Columns of one warp, and lanes of a block of codes (packed_rows.hpp).
constexpr int kChunk = 256;
constexpr int kBlockLanes = 16;
/// Rows whose loads are under way at the same time, to cover their latency.
constexpr int kAhead = 4;

struct HaloJob {
  CsrView csr;
  const std::byte* data = nullptr;
  std::uint32_t row_bytes = 0;
  std::int32_t parameter_bytes = 0;
  std::int64_t cols = 0;
  const float* row_scale = nullptr;
  float* out = nullptr;  ///< At the first of the packed columns.
  std::int64_t out_stride = 0;
};

/// What one lane reads of a part of a chunk, in one word, and which columns it finds there.
/// kVectors: those of a block of codes; 0: the columns behind the last block, in order; at 8 bits
/// four neighbouring columns of 128.
template <int kBits, int kVectors>
struct Part {
  static constexpr bool kBlock = kVectors > 0 && kBits < 8;
  static constexpr bool kBytes = kBits == 8;
  static constexpr int kWordBytes = kBlock ? kVectors * kBits / 8 : (kBytes ? 4 : 1);
  static constexpr int kCodes = kBlock ? kVectors / 2 : (kBytes ? 4 : 4 / kBits);
  static constexpr int kBetween = kBlock ? 2 * kBits : kBits;  // bits from one code to the next
  static constexpr int kColumns = kBlock ? 16 * kVectors : 128;

  /// First byte and bit of the word of `lane`, from the begin of the part on.
  __device__ static int byte(int lane) {
    return kBlock ? kWordBytes * (lane % kBlockLanes) : (kBytes ? 4 * lane : lane / 2);
  }
  __device__ static int bit(int lane) {
    return kBlock ? lane / kBlockLanes * kBits : (kBytes ? 0 : lane % 2 * 4);
  }
  /// Column of code `i` of `lane`, from the begin of the part on.
  __device__ static int column(int lane, int i) {
    return kBlock ? lane + kWarp * i : lane * kCodes + i;
  }
};

/// The parts of a chunk: of 256 columns, or of the fewer that end a row.
template <int kBits, bool kLast>
struct Chunk {
  static constexpr int kParts =
      kBits == 8 ? 2 : (kLast ? (kBits == 4 ? 4 : kBits + 1) : kBits / 4 + 1);
  static constexpr int kLargest = kBits == 4 || kLast ? 8 : 16;
  static constexpr int vectors(int part) {
    if (kBits == 8 || !kLast) return kLargest;
    return part == kParts - 1 ? 0 : kLargest >> part;
  }
  template <int part>
  using PartOf = Part<kBits, vectors(part)>;
};

template <int kCount, class Body>
__device__ void each(const Body& body) {
  [&]<int... i>(std::integer_sequence<int, i...>) { (body(std::integral_constant<int, i>()), ...); }
  (std::make_integer_sequence<int, kCount>());
}

/// Byte `i` of `bytes` as a number: the low digits of 2^23, less 2^23. Cheaper than a conversion.
__device__ float byte_to_float(std::uint32_t bytes, int i) {
  const std::uint32_t number =
      permute_bytes(bytes, 0x4b000000U, 0x7440U | static_cast<unsigned>(i));
  return std::bit_cast<float>(number) - 8388608.0F;
}

/// Adds step x code for the codes of one word.
template <class PartOf, int kBits>
__device__ void add_codes(std::uint32_t word, float step, float* sum) {
  if constexpr (kBits == 1) {
#pragma unroll
    for (int i = 0; i < PartOf::kCodes; ++i) {
      if ((word & (1U << (i * PartOf::kBetween))) != 0) sum[i] += step;
    }
  } else {
    // Codes that stand a whole number of bytes apart are brought into bytes of their own together.
    constexpr std::uint32_t kEachByte = 0x01010101U * ((1U << kBits) - 1U);
#pragma unroll
    for (int i = 0; i < PartOf::kCodes; ++i) {
      const int bit = i * PartOf::kBetween;
      sum[i] = fmaf(byte_to_float((word >> (bit % 8)) & kEachByte, bit / 8), step, sum[i]);
    }
  }
}

/// Up to 8 columns a lane. kUnit: what words may be aligned to, 4 (2 at 1 bit) or 1.
template <int kBits, bool kLast, int kUnit>
__global__ void halo_kernel(HaloJob job, std::int64_t first, std::int64_t chunks, bool wide_out) {
  using Parts = Chunk<kBits, kLast>;
  constexpr int kParts = Parts::kParts;
  constexpr int kMostCodes = 8;
  // For all rows the first chunk, then the next: fewer bytes of each row compete for the cache.
  std::int64_t row = global_warp();
  std::int64_t chunk = 0;
  while (row >= job.csr.rows) {
    row -= job.csr.rows;
    ++chunk;
  }
  if (chunk >= chunks) return;
  first += chunk * kChunk;
  const std::int64_t begin = job.csr.offsets[row];
  const std::int64_t end = job.csr.offsets[row + 1];
  if (begin == end) return;

  const int me = lane();
  std::int64_t part_first[kParts];
  const std::byte* part_data[kParts];
  int part_bit[kParts];
  bool active[kParts];
  each<kParts>([&](auto part) {
    using PartOf = typename Parts::template PartOf<part()>;
    const bool present = !PartOf::kBlock || job.cols - first >= PartOf::kColumns;
    part_first[part()] = first;
    active[part()] = present && first + PartOf::column(me, 0) < job.cols;
    part_data[part()] = job.data + job.parameter_bytes + first * kBits / 8 + PartOf::byte(me);
    part_bit[part()] = PartOf::bit(me);
    if (present) first += PartOf::kColumns;
  });

  float sum[kParts][kMostCodes] = {};
  float minimum = 0;
  for (std::int64_t e = begin; e < end; e += kWarp) {
    // Each lane reads the parameters of one of the next 32 entries. Places behind the last entry
    // repeat it with a step of 0.
    const int count = end - e < kWarp ? static_cast<int>(end - e) : kWarp;
    const std::int32_t mine = job.csr.columns[e + (me < count ? me : count - 1)];
    float step = 0;
    if (me < count) {
      const std::byte* parameters = row_at(job.data, mine, job.row_bytes);
      constexpr int kHalfUnit = kUnit < 2 ? 1 : 2;
      const auto half = [&](int at) {
        return static_cast<std::uint16_t>(load_bytes<2, kHalfUnit>(parameters + at));
      };
      step = step_to_float(half(job.parameter_bytes - 2));
      if (job.parameter_bytes == 4) minimum += bf16_to_float(half(0));
    }
    for (int k = 0; k < count; k += kAhead) {
      std::uint32_t words[kAhead][kParts];
      float steps[kAhead];
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        const std::int32_t j = __shfl_sync(kWholeWarp, mine, k + u);
        steps[u] = __shfl_sync(kWholeWarp, step, k + u);
        each<kParts>([&](auto part) {
          using PartOf = typename Parts::template PartOf<part()>;
          words[u][part()] = 0;
          if (!kLast || active[part()]) {
            words[u][part()] =
                load_bytes<PartOf::kWordBytes, kUnit>(row_at(part_data[part()], j, job.row_bytes));
          }
        });
      }
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        each<kParts>([&](auto part) {
          add_codes<typename Parts::template PartOf<part()>, kBits>(
              words[u][part()] >> part_bit[part()], steps[u], sum[part()]);
        });
      }
    }
  }
  minimum = warp_sum(minimum);

  const float scale = job.row_scale == nullptr ? 1.0F : job.row_scale[row];
  float* out = job.out + row * job.out_stride;
  each<kParts>([&](auto part) {
    using PartOf = typename Parts::template PartOf<part()>;
    if (!active[part()]) return;
    if (kBits == 8 && wide_out && part_first[part()] + PartOf::column(me, 3) < job.cols) {
      auto* to =
          reinterpret_cast<Wide<float, 4>*>(out + part_first[part()] + PartOf::column(me, 0));
      Wide<float, 4> result = *to;
      for (int i = 0; i < 4; ++i) result.at[i] += scale * (sum[part()][i] + minimum);
      *to = result;
      return;
    }
    for (int i = 0; i < PartOf::kCodes; ++i) {
      const std::int64_t column = part_first[part()] + PartOf::column(me, i);
      if (column < job.cols) out[column] += scale * (sum[part()][i] + minimum);
    }
  });
}

template <int kBits, int kUnit>
void start(Queue& queue, const HaloJob& job) {
  const std::int64_t whole = job.cols / kChunk;
  const bool wide_out = alignment_of(job.out, job.out_stride * 4, 16) == 16;
  launch(queue, "aggregate packed rows", halo_kernel<kBits, false, kUnit>,
         cover_by_warps(job.csr.rows * whole), job, 0, whole, wide_out);
  if (whole * kChunk == job.cols) return;
  launch(queue, "aggregate packed rows", halo_kernel<kBits, true, kUnit>,
         cover_by_warps(job.csr.rows), job, whole * kChunk, 1, wide_out);
}

/// kUnit: the widest words of a block, 4 bytes, or 2 at 1 bit.
template <int kBits>
void start_by_alignment(Queue& queue, const HaloJob& job) {
  constexpr int kUnit = kBits == 1 ? 2 : 4;
  if (alignment_of(job.data, job.row_bytes | static_cast<std::uint32_t>(job.parameter_bytes),
                   kUnit) == kUnit) {
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
  job.row_bytes = static_cast<std::uint32_t>(packed.format.row_bytes(packed.cols));
  job.parameter_bytes = static_cast<std::int32_t>(packed.format.parameter_bytes());
  job.cols = packed.cols;
  job.row_scale = row_scale;
  job.out = out.data + packed.col_begin;
  job.out_stride = out.stride;
  switch (packed.format.bits) {
    case 1:
      return start_by_alignment<1>(queue, job);
    case 2:
      return start_by_alignment<2>(queue, job);
    case 4:
      return start_by_alignment<4>(queue, job);
    default:
      return start_by_alignment<8>(queue, job);
  }
}

}  // namespace

void aggregate_halo(Queue& queue, const CsrView& csr, const PackedRows& packed,
                    const float* row_scale, MatrixView out) {
  if (packed.format.is_codes()) return aggregate_codes(queue, csr, packed, row_scale, out);
  GatherJob job;
  job.csr = csr;
  job.rows = packed.data;
  job.pitch = static_cast<std::int64_t>(packed.format.row_bytes(packed.cols));
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
