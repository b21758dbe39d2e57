#include "core/cuda/launch.hpp"
#include "quant/kept_columns.hpp"

// A thread draws, compresses or expands a row, by the definition in kept_row.hpp: rows are short,
// and the bits of one row depend on each other.

namespace heliograph::cuda {
namespace {

constexpr int kScanThreads = 256;

__global__ void draw_columns_kernel(ColumnMasks m, std::uint32_t threshold, std::uint64_t stream,
                                    std::int64_t rows) {
  const std::int64_t row = global_thread();
  if (row < rows) draw_row(m, threshold, stream, row);
}

/// One block adds up the offsets: each thread those of neighbouring rows.
__global__ void add_offsets_kernel(std::int64_t* offsets, std::int64_t rows) {
  auto* sums = shared_memory<std::int64_t>();
  const int me = static_cast<int>(threadIdx.x);
  const std::int64_t begin = rows * me / kScanThreads, end = rows * (me + 1) / kScanThreads;
  std::int64_t sum = 0;
  for (std::int64_t r = begin; r < end; ++r) sum += offsets[r + 1];
  sums[me] = sum;
  __syncthreads();
  if (me == 0) {
    offsets[0] = 0;
    std::int64_t before = 0;
    for (int t = 0; t < kScanThreads; ++t) {
      const std::int64_t of_thread = sums[t];
      sums[t] = before;
      before += of_thread;
    }
  }
  __syncthreads();
  sum = sums[me];
  for (std::int64_t r = begin; r < end; ++r) offsets[r + 1] = sum += offsets[r + 1];
}

__global__ void copy_starts_kernel(const std::int64_t* offsets, const std::int64_t* starts,
                                   std::int64_t count, std::int64_t* start_offsets) {
  const std::int64_t i = global_thread();
  if (i < count) start_offsets[i] = offsets[starts[i]];
}

__global__ void compress_columns_kernel(ColumnMasks m, const std::byte* packed, std::byte* out,
                                        std::int64_t begin, std::int64_t end) {
  const std::int64_t row = begin + global_thread();
  if (row >= end) return;
  compress_row(m, row, packed + row * static_cast<std::int64_t>(m.format.row_bytes(m.cols)),
               out + m.offsets[row]);
}

__global__ void expand_columns_kernel(ColumnMasks m, const std::byte* kept, std::byte* packed,
                                      std::int64_t rows) {
  const std::int64_t row = global_thread();
  if (row >= rows) return;
  expand_row(m, row, kept + m.offsets[row],
             packed + row * static_cast<std::int64_t>(m.format.row_bytes(m.cols)));
}

}  // namespace

void draw_columns(Queue& queue, const ColumnMasks& m, std::uint32_t threshold, std::uint64_t stream,
                  std::int64_t rows, const std::int64_t* starts, std::int64_t count,
                  std::int64_t* start_offsets) {
  launch(queue, "draw kept columns", draw_columns_kernel, cover(rows), m, threshold, stream, rows);
  launch(queue, "add offsets", add_offsets_kernel,
         Grid{1, kScanThreads, kScanThreads * sizeof(std::int64_t)}, m.offsets, rows);
  launch(queue, "copy offsets", copy_starts_kernel, cover(count), m.offsets, starts, count,
         start_offsets);
}

void compress_columns(Queue& queue, const ColumnMasks& m, const std::byte* packed, std::byte* out,
                      std::int64_t begin, std::int64_t end) {
  launch(queue, "compress columns", compress_columns_kernel, cover(end - begin), m, packed, out,
         begin, end);
}

void expand_columns(Queue& queue, const ColumnMasks& m, const std::byte* kept, std::byte* packed,
                    std::int64_t rows) {
  launch(queue, "expand columns", expand_columns_kernel, cover(rows), m, kept, packed, rows);
}

}  // namespace heliograph::cuda
