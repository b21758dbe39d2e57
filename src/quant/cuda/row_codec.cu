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

/// Columns that a warp holds at a time, and lanes of a block of codes (packed_rows.hpp).
constexpr int kChunk = 256;
constexpr int kBlockLanes = 16;
constexpr int kValues = kChunk / kWarp;

/// One row of a task, as a warp sees it.
struct WarpRow {
  const float* x;
  float scale;
  int cols;
  std::uint64_t key;
  std::byte* out;

  __device__ WarpRow(const EncodeTask& task, std::int64_t index)
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
  if (lane() == 0) atomicMin(task.failed, static_cast<std::int32_t>(index) - kNoRow);
}

/// The range of one lane's values.
struct LaneRange {
  float lo = std::numeric_limits<float>::infinity();
  float hi = -std::numeric_limits<float>::infinity();
  float finite = 0;  ///< NaN as soon as a value is NaN or Inf.

  __device__ void take(float value) {
    lo = fminf(lo, value);
    hi = fmaxf(hi, value);
    finite = fmaf(value, 0.0F, finite);
  }
  /// For all lanes of the warp: whether its values can be encoded, and how.
  __device__ bool choose(RowFormat format, int cols, CodeParameters& parameters) const {
    if (__any_sync(kWholeWarp, finite != 0.0F) != 0) return false;
    const float least = warp_min(lo);
    const float most = warp_max(hi);
    if (cols == 0) return choose_parameters(0.0F, 0.0F, format, parameters);
    return choose_parameters(least, most, format, parameters);
  }
};

__device__ void store_parameters(const CodeParameters& p, RowFormat format, std::byte* out) {
  if (lane() != 0) return;
  if (format.has_minimum) {
    store_bytes<4>(out, p.minimum_bits | static_cast<std::uint32_t>(p.step_bits) << 16);
  } else {
    store_bytes<2>(out, p.step_bits);
  }
}

/// Codes of 1, 2 or 4 bits. A lane holds columns of one lane of each block: of the pairs of vectors
/// of 16 columns that share noise words, lanes 0 to 15 have the even ones and lanes 16 to 31 the
/// odd ones. kWhole: every chunk has all of its columns.
template <int kBits, bool kWhole>
struct BlockRows {
  int half = lane() / kBlockLanes;
  int block_lane = lane() % kBlockLanes;
  float values[kValues] = {};
  std::uint32_t codes[kValues] = {};

  /// Columns from the lane's first one to that of value v.
  __device__ static constexpr int distance(int v) { return v / 2 * 64 + v % 2 * 16; }
  /// Column of value v, from the begin of the chunk on.
  __device__ int column(int v) const { return half * 32 + block_lane + distance(v); }
  /// Columns of the row from this lane's first one on.
  __device__ int left(const WarpRow& row, int first) const { return row.cols - first - column(0); }

  __device__ void load(const WarpRow& row, int first) {
    const float* from = row.x + (first + column(0));
#pragma unroll
    for (int v = 0; v < kValues; ++v) {
      const bool there = kWhole || distance(v) < left(row, first);
      values[v] = there ? row.scale * from[distance(v)] : 0.0F;
    }
  }
  __device__ void take_range(const WarpRow& row, int first, LaneRange& range) const {
#pragma unroll
    for (int v = 0; v < kValues; ++v) {
      if (kWhole || distance(v) < left(row, first)) range.take(values[v]);
    }
  }
  __device__ void encode(const WarpRow& row, int first, const CodeParameters& p) {
    const int word = (first / 32 + half) * kBlockLanes + block_lane;
#pragma unroll
    for (int v = 0; v < kValues; ++v) {
      const std::uint32_t noise =
          noise_word(row.key, static_cast<std::uint32_t>(word + v / 2 * 2 * kBlockLanes));
      const std::uint32_t code =
          stochastic_code(values[v], p, kBits, v % 2 == 0 ? noise & 0xffffU : noise >> 16);
      codes[v] = kWhole || distance(v) < left(row, first) ? code : 0;
    }
  }

  /// The word of a block's lane, from the codes of columns [begin, begin + kColumns) of the chunk;
  /// blocks begin at multiples of 64 columns there.
  template <int kColumns>
  __device__ std::uint32_t block_word(int begin) const {
    std::uint32_t word = 0;
#pragma unroll
    for (int v = 0; v < kValues; ++v) {
      const int pair = v / 2 * 64 - begin;
      const bool inside = pair >= 0 && pair < kColumns && (kColumns >= 64 || half == 0);
      if (inside) word |= codes[v] << ((pair / 16 + v % 2) * kBits);
    }
    word <<= half * 2 * kBits;
    return word | __shfl_xor_sync(kWholeWarp, word, kBlockLanes);
  }
  template <int kColumns>
  __device__ void store_block(int begin, std::byte* to) const {
    constexpr int kWordBytes = kColumns / kBlockLanes * kBits / 8;
    const std::uint32_t word = block_word<kColumns>(begin);
    if (half == 0) store_bytes<kWordBytes>(to + kWordBytes * block_lane, word);
  }
  /// 256 columns. `to`: their first byte.
  __device__ void store_chunk(std::byte* to) const {
    if constexpr (kBits == 4) {
      const std::uint32_t first = block_word<128>(0);
      const std::uint32_t second = block_word<128>(128);
      store_bytes<4>(to + 64 * half + 4 * block_lane, half == 0 ? first : second);
    } else {
      store_block<256>(0, to);
    }
  }
  /// The fewer columns that end a row: blocks, then columns in order.
  __device__ void store_last(int columns, std::byte* to) const {
    int begin = 0;
    if (columns >= 128) {
      store_block<128>(0, to);
      begin = 128;
    }
    if constexpr (kBits >= 2) {
      if (columns - begin >= 64) {
        store_block<64>(begin, to + begin * kBits / 8);
        begin += 64;
      }
    }
    if constexpr (kBits == 4) {
      if (columns - begin >= 32) {
        store_block<32>(begin, to + begin * kBits / 8);
        begin += 32;
      }
    }
#pragma unroll
    for (int v = 0; v < kValues; ++v) {
      if (distance(v) + 48 <= begin || distance(v) >= columns) continue;  // the same for all lanes
      const int shift = block_lane * kBits % 8;
      std::uint32_t byte = codes[v] << shift;
      for (int step = 1; step < 8 / kBits; step *= 2) {
        byte |= __shfl_xor_sync(kWholeWarp, byte, step);
      }
      if (shift == 0 && column(v) >= begin && column(v) < columns) {
        store_bytes<1>(to + column(v) * kBits / 8, byte);
      }
    }
  }
};

template <int kBits, bool kWhole>
__global__ void encode_blocks_kernel(EncodeTask task) {
  const std::int64_t index = global_warp();
  if (index >= task.count) return;
  const RowFormat format{kBits, task.format.has_minimum};
  const WarpRow row(task, index);
  BlockRows<kBits, kWhole> chunk;
  LaneRange range;
  for (int first = 0; first < row.cols; first += kChunk) {
    chunk.load(row, first);
    chunk.take_range(row, first, range);
  }
  CodeParameters parameters;
  if (!range.choose(format, row.cols, parameters)) return report(task, index);
  store_parameters(parameters, format, row.out);
  std::byte* codes = row.out + format.parameter_bytes();
  for (int first = 0; first < row.cols; first += kChunk) {
    if (row.cols > kChunk) chunk.load(row, first);
    chunk.encode(row, first, parameters);
    std::byte* to = codes + first / 8 * kBits;
    if (kWhole || row.cols - first >= kChunk) {
      chunk.store_chunk(to);
    } else {
      chunk.store_last(row.cols - first, to);
    }
  }
}

/// Formats whose values stand in column order, in whole bytes: 8, 16 and 32 bits. A lane holds four
/// neighbouring columns of each 128.
template <int kBits>
struct OrderedRows {
  static constexpr int kQuads = kValues / 4;
  float values[kQuads][4] = {};

  __device__ static int column(int first, int quad) {
    return first + quad * 4 * kWarp + lane() * 4;
  }
  __device__ void load(const WarpRow& row, int first, bool wide) {
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
  __device__ void take_range(const WarpRow& row, int first, LaneRange& range) const {
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      for (int i = 0; i < 4; ++i) {
        if (column(first, q) + i < row.cols) range.take(values[q][i]);
      }
    }
  }
  /// What travels of a value of column c.
  __device__ static std::uint32_t encoded(const WarpRow& row, int c, float value,
                                          const CodeParameters& p) {
    if constexpr (kBits == 32) return std::bit_cast<std::uint32_t>(value);
    const std::uint32_t noise = noise16(row.key, static_cast<std::uint32_t>(c));
    return kBits == 16 ? stochastic_bf16(value, noise) : stochastic_code(value, p, 8, noise);
  }
  __device__ void store(const WarpRow& row, int first, const CodeParameters& p,
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
  const WarpRow row(task, index);
  OrderedRows<kBits> chunk;
  LaneRange range;
  CodeParameters parameters;
  if constexpr (kBits > 8) {
    for (int first = 0; first < row.cols; first += kChunk) {
      chunk.load(row, first, wide);
      chunk.take_range(row, first, range);
      chunk.store(row, first, parameters, row.out);
    }
    if (__any_sync(kWholeWarp, range.finite != 0.0F) != 0) report(task, index);
  } else {
    for (int first = 0; first < row.cols; first += kChunk) {
      chunk.load(row, first, wide);
      chunk.take_range(row, first, range);
    }
    if (!range.choose(format, row.cols, parameters)) return report(task, index);
    store_parameters(parameters, format, row.out);
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
  const Grid grid = cover_by_warps(task.count);
  const bool wide = alignment_of(task.x.data, task.x.stride * 4, 16) == 16;
  with_bits(task.format.bits, [&](auto bits) {
    if constexpr (bits() < 8) {
      const auto kernel = task.x.cols % kChunk == 0 ? encode_blocks_kernel<bits(), true>
                                                    : encode_blocks_kernel<bits(), false>;
      launch(queue, "encode rows", kernel, grid, task);
    } else {
      launch(queue, "encode rows", encode_ordered_kernel<bits()>, grid, task, wide);
    }
  });
}

void decode_rows(Queue& queue, const PackedRows& packed, MatrixView out) {
  with_bits(packed.format.bits, [&](auto bits) {
    launch(queue, "decode rows", decode_kernel<bits()>, cover_by_warps(packed.rows), packed, out);
  });
}

}  // namespace heliograph::cuda
