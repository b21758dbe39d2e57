// A warp a row: it gathers and scales the row, finds its range, rounds and packs. Rows of up to 256
// columns stay in registers; wider ones are read a second time, from cache. Encoding is bound by
// the 4 bytes a value that it reads and the row_bytes that it writes; the arithmetic is that of
// row_math.hpp and must not be contracted (--fmad=false).

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/cuda/wide.hpp"
#include "core/noise.hpp"
#include "quant/cuda/row_codec.hpp"
#include "quant/row_math.hpp"

namespace heliograph::cuda {
namespace {

/// Columns that are held at a time, and lanes of a block of codes (packed_rows.hpp).
constexpr int kChunk = 256;
constexpr int kBlockLanes = 16;

/// One row of a task.
struct SourceRow {
  const float* x;
  float scale;
  int cols;
  std::uint64_t key;
  std::byte* out;

  __device__ SourceRow(const EncodeTask& task, std::int64_t index)
      : cols(static_cast<int>(task.x.cols)) {
    const std::int32_t source = task.rows[index];
    const std::int64_t row = task.positions == nullptr ? index : task.positions[index];
    x = task.x.data + source * task.x.stride;
    scale = task.row_scale == nullptr ? 1.0F : task.row_scale[source];
    key = row_key(task.stream, static_cast<std::uint64_t>(task.global_ids[source]));
    out = task.out + static_cast<std::size_t>(row) * task.format.row_bytes(cols);
  }
};

__device__ void report(const EncodeTask& task, std::int64_t index) {
  atomicMin(task.failed, static_cast<std::int32_t>(index) - kNoRow);
}

/// The range of the values of one lane among kLanes that hold a row.
template <int kLanes>
struct LaneRange {
  float lo = std::numeric_limits<float>::infinity();
  float hi = -std::numeric_limits<float>::infinity();
  float finite = 0;  ///< NaN as soon as a value is NaN or Inf.

  __device__ void take(float value) {
    lo = fminf(lo, value);
    hi = fmaxf(hi, value);
    finite = fmaf(value, 0.0F, finite);
  }
  /// For the row's lanes: is it free of NaN and Inf?
  __device__ bool all_finite() const {
    const unsigned bad = __ballot_sync(kWholeWarp, finite != 0.0F ? 1 : 0);
    constexpr unsigned kRow = kWholeWarp >> (kWarp - kLanes);
    return (bad >> (lane() / kLanes * kLanes) & kRow) == 0;
  }
  /// For the row's lanes: whether it can be encoded, and how.
  __device__ bool choose(RowFormat format, int cols, CodeParameters& parameters) const {
    float least = lo;
    float most = hi;
    for (int step = kLanes / 2; step > 0; step /= 2) {
      least = fminf(least, __shfl_xor_sync(kWholeWarp, least, step));
      most = fmaxf(most, __shfl_xor_sync(kWholeWarp, most, step));
    }
    if (cols == 0) least = most = 0;
    return all_finite() && choose_parameters(least, most, format, parameters);
  }
};

__device__ void store_parameters(const CodeParameters& p, RowFormat format, std::byte* out) {
  if (format.has_minimum) {
    store_bytes<4>(out, p.minimum_bits | static_cast<std::uint32_t>(p.step_bits) << 16);
  } else {
    store_bytes<2>(out, p.step_bits);
  }
}

/// Codes of 1, 2 or 4 bits: a lane holds the columns of one lane of each block. kWhole: every chunk
/// has all of its columns. Both halves of a warp make the same shuffles, whatever their rows hold.
template <int kBits, bool kWhole>
struct BlockRows {
  static constexpr int kVectors = kChunk / kBlockLanes;
  int me = lane() % kBlockLanes;
  float values[kVectors] = {};
  std::uint32_t codes[kVectors] = {};

  __device__ bool there(const SourceRow& row, int first, int v) const {
    return kWhole || first + me + v * kBlockLanes < row.cols;
  }
  __device__ void load(const SourceRow& row, int first) {
    const float* from = row.x + (first + me);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      values[v] = there(row, first, v) ? row.scale * from[v * kBlockLanes] : 0.0F;
    }
  }
  __device__ void take_range(const SourceRow& row, int first, LaneRange<kBlockLanes>& range) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (there(row, first, v)) range.take(values[v]);
    }
  }
  __device__ void encode(const SourceRow& row, int first, const CodeParameters& p) {
    const int word = first / 2 + me;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      // The word of a group of 32 columns serves two vectors.
      const std::uint32_t noise =
          noise_word(row.key, static_cast<std::uint32_t>(word + v / 2 * kBlockLanes));
      const std::uint32_t code =
          stochastic_code(values[v], p, kBits, v % 2 == 0 ? noise & 0xffffU : noise >> 16);
      codes[v] = there(row, first, v) ? code : 0;
    }
  }

  /// A block of the chunk's columns [begin, begin + kColumns).
  template <int kColumns>
  __device__ void store_block(int begin, std::byte* chunk, bool writes) const {
    constexpr int kWordBytes = kColumns / kBlockLanes * kBits / 8;
    std::uint32_t word = 0;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int vector = v - begin / kBlockLanes;
      if (vector >= 0 && vector < kColumns / kBlockLanes) word |= codes[v] << (vector * kBits);
    }
    if (writes) store_bytes<kWordBytes>(chunk + begin / 8 * kBits + kWordBytes * me, word);
  }
  /// 256 columns. `chunk`: their first byte.
  __device__ void store_chunk(std::byte* chunk, bool writes) const {
    if constexpr (kBits == 4) {
      store_block<128>(0, chunk, writes);
      store_block<128>(128, chunk, writes);
    } else {
      store_block<256>(0, chunk, writes);
    }
  }
  /// The fewer columns that end a row: blocks, then columns in order.
  __device__ void store_last(int columns, std::byte* chunk, bool writes) const {
    int begin = 0;
    if (columns >= 128) {
      store_block<128>(0, chunk, writes);
      begin = 128;
    }
    if constexpr (kBits >= 2) {
      if (columns - begin >= 64) {
        store_block<64>(begin, chunk, writes);
        begin += 64;
      }
    }
    if constexpr (kBits == 4) {
      if (columns - begin >= 32) {
        store_block<32>(begin, chunk, writes);
        begin += 32;
      }
    }
    const int shift = me * kBits % 8;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int first = v * kBlockLanes;
      if (first < begin || first >= columns) continue;
      std::uint32_t byte = codes[v] << shift;
      for (int step = 1; step < 8 / kBits; step *= 2) {
        byte |= __shfl_xor_sync(kWholeWarp, byte, step);
      }
      if (writes && shift == 0 && first + me < columns) {
        store_bytes<1>(chunk + (first + me) * kBits / 8, byte);
      }
    }
  }
};

template <int kBits, bool kWhole>
__global__ void encode_blocks_kernel(EncodeTask task) {
  if (global_warp() * (kWarp / kBlockLanes) >= task.count) return;
  // Where rows end within a warp, its second half does the last one over and writes nothing.
  const std::int64_t mine = global_thread() / kBlockLanes;
  const std::int64_t index = mine < task.count ? mine : task.count - 1;
  const RowFormat format{kBits, task.format.has_minimum};
  const SourceRow row(task, index);
  BlockRows<kBits, kWhole> chunk;
  LaneRange<kBlockLanes> range;
  for (int first = 0; first < row.cols; first += kChunk) {
    chunk.load(row, first);
    chunk.take_range(row, first, range);
  }
  CodeParameters parameters;
  const bool encodable = range.choose(format, row.cols, parameters);
  const bool writes = encodable && mine < task.count;
  if (chunk.me == 0 && writes) store_parameters(parameters, format, row.out);
  if (chunk.me == 0 && !encodable) report(task, index);
  std::byte* codes = row.out + format.parameter_bytes();
  for (int first = 0; first < row.cols; first += kChunk) {
    if (row.cols > kChunk) chunk.load(row, first);
    if (writes) chunk.encode(row, first, parameters);
    std::byte* to = codes + first / 8 * kBits;
    if (kWhole || row.cols - first >= kChunk) {
      chunk.store_chunk(to, writes);
    } else {
      chunk.store_last(row.cols - first, to, writes);
    }
  }
}

/// Formats whose values stand in column order, in whole bytes: 8, 16 and 32 bits. A lane holds four
/// neighbouring columns of each 128.
template <int kBits>
struct OrderedRows {
  static constexpr int kQuads = kChunk / (4 * kWarp);
  float values[kQuads][4] = {};

  __device__ static int column(int first, int quad) {
    return first + quad * 4 * kWarp + lane() * 4;
  }
  __device__ void load(const SourceRow& row, int first, bool wide) {
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const int c = column(first, q);
      if (wide && c < row.cols) {
        const auto quad = load_wide<float, 4>(row.x + c);
        for (int i = 0; i < 4; ++i) values[q][i] = row.scale * quad.at[i];
      } else {
        for (int i = 0; i < 4; ++i) {
          values[q][i] = c + i < row.cols ? row.scale * row.x[c + i] : 0.0F;
        }
      }
    }
  }
  __device__ void take_range(const SourceRow& row, int first, LaneRange<kWarp>& range) const {
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      for (int i = 0; i < 4; ++i) {
        if (column(first, q) + i < row.cols) range.take(values[q][i]);
      }
    }
  }
  /// What travels of a value of column c.
  __device__ static std::uint32_t encoded(const SourceRow& row, int c, float value,
                                          const CodeParameters& p) {
    if constexpr (kBits == 32) return std::bit_cast<std::uint32_t>(value);
    const std::uint32_t noise = noise16(row.key, static_cast<std::uint32_t>(c));
    return kBits == 16 ? stochastic_bf16(value, noise) : stochastic_code(value, p, 8, noise);
  }
  __device__ void store(const SourceRow& row, int first, const CodeParameters& p,
                        std::byte* out) const {
    constexpr int kWords = kBits / 8;  // of four values
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const int c = column(first, q);
      std::byte* to = out + c * (kBits / 8);
      if (c + 4 > row.cols) {
        for (int i = 0; i < 4; ++i) {
          if (c + i >= row.cols) break;
          store_bytes<kBits / 8>(to + i * kBits / 8, encoded(row, c + i, values[q][i], p));
        }
        continue;
      }
      Wide<std::uint32_t, kWords> words = {};
      for (int i = 0; i < 4; ++i) {
        words.at[i * kBits / 32] |= encoded(row, c + i, values[q][i], p) << (i * kBits % 32);
      }
      if (reinterpret_cast<std::uintptr_t>(to) % sizeof(words) == 0) {
        *reinterpret_cast<Wide<std::uint32_t, kWords>*>(to) = words;
      } else {
        for (int w = 0; w < kWords; ++w) store_bytes<4>(to + 4 * w, words.at[w]);
      }
    }
  }
};

template <int kBits>
__global__ void encode_ordered_kernel(EncodeTask task, bool wide) {
  const std::int64_t index = global_warp();
  if (index >= task.count) return;
  const RowFormat format{kBits, task.format.has_minimum};
  const SourceRow row(task, index);
  OrderedRows<kBits> chunk;
  LaneRange<kWarp> range;
  CodeParameters parameters;
  if constexpr (kBits > 8) {
    for (int first = 0; first < row.cols; first += kChunk) {
      chunk.load(row, first, wide);
      chunk.take_range(row, first, range);
      chunk.store(row, first, parameters, row.out);
    }
    if (!range.all_finite() && lane() == 0) report(task, index);
  } else {
    for (int first = 0; first < row.cols; first += kChunk) {
      chunk.load(row, first, wide);
      chunk.take_range(row, first, range);
    }
    const bool encodable = range.choose(format, row.cols, parameters);
    if (lane() == 0 && encodable) store_parameters(parameters, format, row.out);
    if (lane() == 0 && !encodable) report(task, index);
    if (!encodable) return;
    std::byte* codes = row.out + format.parameter_bytes();
    for (int first = 0; first < row.cols; first += kChunk) {
      if (row.cols > kChunk) chunk.load(row, first, wide);
      chunk.store(row, first, parameters, codes);
    }
  }
}

/// A warp a row, a lane a column at a time. Bound by the 4 bytes a value that it writes.
template <int kBits>
__global__ void decode_kernel(PackedRows packed, MatrixView out) {
  const std::int64_t r = global_warp();
  if (r >= packed.rows) return;
  packed.format.bits = kBits;
  const std::byte* row = packed.row(r);
  for (std::int64_t c = lane(); c < packed.cols; c += kWarp) {
    out.data[r * out.stride + c] = decode_value(row, packed.format, packed.cols, c);
  }
}

/// Calls body(integral_constant of bits).
template <class Body>
void with_bits(int bits, const Body& body) {
  switch (bits) {
    case 1:
      return body(std::integral_constant<int, 1>());
    case 2:
      return body(std::integral_constant<int, 2>());
    case 4:
      return body(std::integral_constant<int, 4>());
    case 8:
      return body(std::integral_constant<int, 8>());
    case 16:
      return body(std::integral_constant<int, 16>());
    default:
      return body(std::integral_constant<int, 32>());
  }
}

}  // namespace

void encode_rows(Queue& queue, const EncodeTask& task) {
  const bool wide = alignment_of(task.x.data, task.x.stride * 4, 16) == 16;
  with_bits(task.format.bits, [&](auto bits) {
    if constexpr (bits() < 8) {
      const auto kernel = task.x.cols % kChunk == 0 ? encode_blocks_kernel<bits(), true>
                                                    : encode_blocks_kernel<bits(), false>;
      launch(queue, "encode rows", kernel, cover(task.count * kBlockLanes), task);
    } else {
      launch(queue, "encode rows", encode_ordered_kernel<bits()>, cover_by_warps(task.count), task,
             wide);
    }
  });
}

void decode_rows(Queue& queue, const PackedRows& packed, MatrixView out) {
  with_bits(packed.format.bits, [&](auto bits) {
    launch(queue, "decode rows", decode_kernel<bits()>, cover_by_warps(packed.rows), packed, out);
  });
}

}  // namespace heliograph::cuda
