// A warp, or half a warp with up to 4 bits, encodes a row: gathers and scales it, finds its range,
// rounds and packs. Rows of up to 256 columns stay in registers; wider ones are read a second time,
// from cache. Encoding is bound by instructions or by the bytes: 4 a value to read and row_bytes to
// write. The arithmetic is that of row_math.hpp and must not be contracted (--fmad=false).

#include <bit>
#include <cmath>
#include <limits>

#include "core/cuda/wide.hpp"
#include "core/noise.hpp"
#include "quant/cuda/row_codec.hpp"
#include "quant/cuda/with_bits.hpp"
#include "quant/row_math.hpp"

namespace heliograph::cuda {
namespace {

constexpr int kEncodeChunk = 256;    // columns held in registers at a time
constexpr int kBlockLanes = 16;      // lanes of a block of codes (packed_rows.hpp)
constexpr int kRows = 8;             // rows of a warp that encodes blocks
constexpr int kEncodeThreads = 256;  // threads of a thread block

/// One row to encode.
struct SourceRow {
  const float* x;
  float scale;
  int cols;
  std::uint64_t key;
  std::byte* out;
  int bits;
};

/// The properties of a row that one lane looks up before a warp encodes it.
struct RowSetup {
  std::uint32_t source;
  std::uint32_t position;
  float scale;
  std::uint64_t key;

  __device__ RowSetup(const EncodeTask& task, std::int64_t index)
      : source(static_cast<std::uint32_t>(task.rows[index])),
        position(static_cast<std::uint32_t>(
            task.positions == nullptr ? index : static_cast<std::int64_t>(task.positions[index]))),
        scale(task.row_scale == nullptr ? 1.0F : task.row_scale[source]),
        key(group_key(row_key(task.stream, static_cast<std::uint64_t>(task.global_ids[source])),
                      task.group)) {}

  /// The RowSetup of lane `of`.
  __device__ RowSetup from(int of) const {
    RowSetup other = *this;
    other.source = __shfl_sync(kWholeWarp, source, of);
    other.position = __shfl_sync(kWholeWarp, position, of);
    other.scale = __shfl_sync(kWholeWarp, scale, of);
    const std::uint32_t high = __shfl_sync(kWholeWarp, static_cast<std::uint32_t>(key >> 32), of);
    other.key = static_cast<std::uint64_t>(high) << 32 |
                __shfl_sync(kWholeWarp, static_cast<std::uint32_t>(key), of);
    return other;
  }
  __device__ SourceRow row(const EncodeTask& task) const {
    const auto cols = static_cast<int>(task.x.cols);
    return {task.x.data +
                static_cast<std::uint64_t>(source) * static_cast<std::uint32_t>(task.x.stride),
            scale,
            cols,
            key,
            task.out + position * static_cast<std::uint64_t>(task.row_bytes),
            task.bits == nullptr ? task.format.bits : task.bits[source]};
  }
};

__device__ void report(const EncodeTask& task, std::int64_t index) {
  atomicMin(task.failed, static_cast<std::int32_t>(task.first + index) - kNoFailedRow);
}

/// The range of one lane's values, where kLanes lanes hold a row.
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
  /// Whether the row is free of NaN and Inf; all its lanes get the answer.
  __device__ bool all_finite() const {
    const unsigned bad = __ballot_sync(kWholeWarp, finite != 0.0F ? 1 : 0);
    constexpr unsigned kRow = kWholeWarp >> (kWarp - kLanes);
    return (bad >> (lane() / kLanes * kLanes) & kRow) == 0;
  }
  /// Chooses the row's parameters, for all its lanes. Returns false if it cannot be encoded.
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

/// Codes of 1, 2 or 4 bits of a chunk; each thread holds the columns of one lane of each block.
/// kColumns is the width of a chunk, 256, or 128 if rows are no wider. kWhole means that every
/// chunk is full. Both halves of a warp make the same shuffles, whatever their rows hold.
template <int kBits, int kColumns, bool kWhole>
struct BlockRows {
  static constexpr int kVectors = kColumns / kBlockLanes;
  static constexpr int kVectorsOfWord = 32 / kBits < kVectors ? 32 / kBits : kVectors;
  static constexpr int kWords = kVectors / kVectorsOfWord;
  int me = lane() % kBlockLanes;
  float values[kVectors] = {};
  std::uint32_t codes[kWords] = {};  ///< The code of vector v is at bit v * kBits.

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
    for (std::uint32_t& some : codes) some = 0;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      // The word of a span of 32 columns serves two vectors.
      const std::uint32_t noise =
          noise_word(row.key, static_cast<std::uint32_t>(word + v / 2 * kBlockLanes));
      const std::uint32_t code =
          stochastic_code(values[v], p, kBits, v % 2 == 0 ? noise & 0xffffU : noise >> 16);
      const int bit = v % kVectorsOfWord * kBits;
      if (kBits == 1) {
        if (code != 0 && there(row, first, v)) codes[v / kVectorsOfWord] |= 1U << bit;
      } else {
        codes[v / kVectorsOfWord] |= (there(row, first, v) ? code : 0U) << bit;
      }
    }
  }

  /// Stores the block of the chunk's columns [begin, begin + kBlock).
  template <int kBlock>
  __device__ void store_block(int begin, std::byte* chunk, bool writes) const {
    constexpr int kWordBytes = kBlock / kBlockLanes * kBits / 8;
    const int vector = begin / kBlockLanes;
    // An index that is not a constant would move `codes` out of registers.
    const std::uint32_t whole = vector < kVectorsOfWord ? codes[0] : codes[kWords - 1];
    const std::uint32_t word = whole >> (vector % kVectorsOfWord * kBits);
    if (writes) store_bytes<kWordBytes>(chunk + begin / 8 * kBits + kWordBytes * me, word);
  }
  /// Stores a full chunk, whose first byte is `chunk`.
  __device__ void store_chunk(std::byte* chunk, bool writes) const {
    if constexpr (kColumns == 256 && kBits < 4) {
      store_block<256>(0, chunk, writes);
    } else {
      for (int begin = 0; begin < kColumns; begin += 128) store_block<128>(begin, chunk, writes);
    }
  }
  /// Stores the fewer columns at the end of a row: blocks, then columns in order.
  __device__ void store_last(int columns, std::byte* chunk, bool writes) const {
    int begin = 0;
    if constexpr (kColumns > 128) {
      if (columns >= 128) {
        store_block<128>(0, chunk, writes);
        begin = 128;
      }
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
      const std::uint32_t code =
          codes[v / kVectorsOfWord] >> (v % kVectorsOfWord * kBits) & max_code(kBits);
      std::uint32_t byte = code << shift;
      for (int step = 1; step < 8 / kBits; step *= 2) {
        byte |= __shfl_xor_sync(kWholeWarp, byte, step);
      }
      if (writes && shift == 0 && first + me < columns) {
        store_bytes<1>(chunk + (first + me) * kBits / 8, byte);
      }
    }
  }
};

/// Each half of a warp encodes one row. A half without a row (`there` is false) repeats another row
/// and writes nothing.
template <int kBits, int kColumns, bool kWhole>
__device__ void encode_blocks(const EncodeTask& task, const SourceRow& row, std::int64_t index,
                              bool there) {
  const RowFormat format{kBits, task.format.has_minimum}, levels{row.bits, format.has_minimum};
  const int end = kColumns == kEncodeChunk ? row.cols : 1;  // limit of the first columns of chunks
  BlockRows<kBits, kColumns, kWhole> chunk;
  LaneRange<kBlockLanes> range;
  for (int first = 0; first < end; first += kColumns) {
    chunk.load(row, first);
    chunk.take_range(row, first, range);
  }
  CodeParameters parameters;
  const bool encodable = range.choose(levels, row.cols, parameters);
  const bool writes = encodable && there;
  if (chunk.me == 0 && writes) store_parameters(parameters, format, row.out);
  if (chunk.me == 0 && !encodable) report(task, index);
  std::byte* codes = row.out + format.parameter_bytes();
  for (int first = 0; first < end; first += kColumns) {
    if (end > kColumns) chunk.load(row, first);
    if (writes) chunk.encode(row, first, parameters);
    std::byte* to = codes + first / 8 * kBits;
    if (kWhole || row.cols - first >= kColumns) {
      chunk.store_chunk(to, writes);
    } else {
      chunk.store_last(row.cols - first, to, writes);
    }
  }
}

/// Each warp encodes kRows rows; its lanes first look up the properties of all of them.
template <int kBits, int kColumns, bool kWhole>
__global__ void __launch_bounds__(kEncodeThreads, 4) encode_blocks_kernel(EncodeTask task) {
  const std::int64_t begin = global_warp() * kRows;
  if (begin >= task.count) return;
  const auto last = [&](std::int64_t index) { return index < task.count ? index : task.count - 1; };
  const RowSetup setup(task, last(begin + lane() % kRows));
  for (int r = lane() / kBlockLanes; begin + r / 2 * 2 < task.count && r < kRows; r += 2) {
    encode_blocks<kBits, kColumns, kWhole>(task, setup.from(r).row(task), last(begin + r),
                                           begin + r < task.count);
  }
}

/// Values of a chunk in formats of 8, 16 and 32 bits, which are whole bytes in column order. A lane
/// holds four neighbouring columns of each 128.
template <int kBits>
struct OrderedRows {
  static constexpr int kQuads = kEncodeChunk / (4 * kWarp);
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
  /// The encoded form of a value of column c.
  __device__ static std::uint32_t encoded(const SourceRow& row, int c, float value,
                                          const CodeParameters& p) {
    if constexpr (kBits == 32) return std::bit_cast<std::uint32_t>(value);
    const std::uint32_t noise = noise16(row.key, static_cast<std::uint32_t>(c));
    return kBits == 16 ? stochastic_bf16(value, noise) : stochastic_code(value, p, 8, noise);
  }
  __device__ void store(const SourceRow& row, int first, const CodeParameters& p,
                        std::byte* out) const {
    constexpr int kWords = kBits / 8;  // words of four encoded values
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
  const SourceRow row = RowSetup(task, index).row(task);
  OrderedRows<kBits> chunk;
  LaneRange<kWarp> range;
  CodeParameters parameters;
  if constexpr (kBits > 8) {
    for (int first = 0; first < row.cols; first += kEncodeChunk) {
      chunk.load(row, first, wide);
      chunk.take_range(row, first, range);
      chunk.store(row, first, parameters, row.out);
    }
    if (!range.all_finite() && lane() == 0) report(task, index);
  } else {
    for (int first = 0; first < row.cols; first += kEncodeChunk) {
      chunk.load(row, first, wide);
      chunk.take_range(row, first, range);
    }
    const bool encodable = range.choose(format, row.cols, parameters);
    if (lane() == 0 && encodable) store_parameters(parameters, format, row.out);
    if (lane() == 0 && !encodable) report(task, index);
    if (!encodable) return;
    std::byte* codes = row.out + format.parameter_bytes();
    for (int first = 0; first < row.cols; first += kEncodeChunk) {
      if (row.cols > kEncodeChunk) chunk.load(row, first, wide);
      chunk.store(row, first, parameters, codes);
    }
  }
}

/// Encodes the columns of `task` as one group.
void encode_group(Queue& queue, const EncodeTask& task) {
  const bool wide = alignment_of(task.x.data, task.x.stride * 4, 16) == 16;
  with_bits(task.format.bits, [&](auto bits) {
    if constexpr (bits() < 8) {
      const auto start = [&](auto kernel) {
        launch(queue, "encode rows", kernel,
               cover_by_warps((task.count + kRows - 1) / kRows, kEncodeThreads), task);
      };
      const std::int64_t cols = task.x.cols;
      if (cols == 128) return start(encode_blocks_kernel<bits(), 128, true>);
      if (cols < 128) return start(encode_blocks_kernel<bits(), 128, false>);
      if (cols % kEncodeChunk == 0) return start(encode_blocks_kernel<bits(), kEncodeChunk, true>);
      start(encode_blocks_kernel<bits(), kEncodeChunk, false>);
    } else {
      launch(queue, "encode rows", encode_ordered_kernel<bits()>, cover_by_warps(task.count), task,
             wide);
    }
  });
}

}  // namespace

void encode_rows(Queue& queue, const EncodeTask& task) {
  const int groups = task.format.coded_groups();
  EncodeTask group = task;
  group.x.cols = task.x.cols / groups;
  for (; group.group < groups; ++group.group) {
    encode_group(queue, group);
    group.x.data += group.x.cols;
    group.out += task.format.group_bytes(task.x.cols);
  }
}

}  // namespace heliograph::cuda
