#include "core/cpu/aggregate.hpp"

#include "core/cpu/aggregate_rows.hpp"
#include "core/cpu/aggregate_tiles.hpp"
#include "core/gather_blocks.hpp"

namespace heliograph::cpu {
namespace {

bool in_blocks(const CsrView& csr, std::int64_t cols) {
  return csr.blocks != nullptr && csr.blocks->serve(cols);
}

}  // namespace

void aggregate_inner(const CsrView& csr, ConstMatrixView x, const float* col_scale, float self,
                     const float* row_scale, MatrixView out, AccumulatorView acc,
                     ThreadPool& threads) {
  if (acc.data == nullptr && in_blocks(csr, x.cols)) {
    threads.run(csr.blocks->tiles(), [&](std::int64_t tile) {
      aggregate_inner_tile(csr, x, col_scale, self, row_scale, out, tile);
    });
    return;
  }
  for_tiles(csr, x.cols, threads, [&](std::int64_t begin, std::int64_t end) {
    if (acc.data != nullptr) {
      aggregate_inner_rows_fp64(csr, x, col_scale, self, row_scale, out, acc, begin, end);
    } else {
      aggregate_inner_rows(csr, x, col_scale, self, row_scale, out, begin, end);
    }
  });
}

void aggregate_inner_bf16(const CsrView& csr, ConstMatrixView x, const float* col_scale, float self,
                          const float* row_scale, MatrixView out, Bf16View stored,
                          ThreadPool& threads) {
  threads.for_ranges(x.rows, 256, [&](std::int64_t begin, std::int64_t end) {
    store_bf16_rows(x, col_scale, stored, begin, end);
  });
  if (in_blocks(csr, x.cols)) {
    threads.run(csr.blocks->tiles(), [&](std::int64_t tile) {
      aggregate_bf16_tile(csr, stored, self, row_scale, out, tile);
    });
    return;
  }
  for_tiles(csr, x.cols, threads, [&](std::int64_t begin, std::int64_t end) {
    aggregate_bf16_rows(csr, stored, self, row_scale, out, begin, end);
  });
}

void aggregate_halo(const CsrView& csr, const PackedRows& packed, const float* row_scale,
                    MatrixView out, AccumulatorView acc, ThreadPool& threads) {
  if (packed.format.coded_groups() > 1) {
    for (int g = 0; g < packed.format.groups; ++g) {
      aggregate_halo(csr, packed.group(g), row_scale, out, acc, threads);
    }
    return;
  }
  if (acc.data == nullptr && packed.format.bits == 32 && in_blocks(csr, packed.cols)) {
    threads.run(csr.blocks->tiles(),
                [&](std::int64_t tile) { aggregate_halo_tile(csr, packed, row_scale, out, tile); });
    return;
  }
  for_tiles(csr, packed.cols, threads, [&](std::int64_t begin, std::int64_t end) {
    if (acc.data != nullptr) {
      aggregate_halo_rows_fp64(csr, packed, row_scale, out, acc, begin, end);
    } else {
      aggregate_halo_rows(csr, packed, row_scale, out, begin, end);
    }
  });
}

}  // namespace heliograph::cpu
