#include "core/cpu/aggregate.hpp"

#include "core/cpu/aggregate_rows.hpp"
#include "core/cpu/aggregate_tiles.hpp"

namespace heliograph::cpu {

void aggregate_inner(const CsrView& csr, ConstMatrixView x, const float* col_scale, bool self,
                     const float* row_scale, MatrixView out, AccumulatorView acc,
                     ThreadPool& threads) {
  const bool in_blocks = acc.data == nullptr && blocks_pay(csr, x.rows, x.cols);
  for_tiles(csr, x.cols, in_blocks, threads, [&](std::int64_t begin, std::int64_t end) {
    if (acc.data != nullptr) {
      aggregate_inner_rows_fp64(csr, x, col_scale, self, row_scale, out, acc, begin, end);
    } else {
      aggregate_inner_rows(csr, x, col_scale, self, row_scale, out, in_blocks, begin, end);
    }
  });
}

void aggregate_inner_bf16(const CsrView& csr, ConstMatrixView x, const float* col_scale, bool self,
                          const float* row_scale, MatrixView out, Bf16View stored,
                          ThreadPool& threads) {
  threads.for_ranges(x.rows, 256, [&](std::int64_t begin, std::int64_t end) {
    store_bf16_rows(x, col_scale, stored, begin, end);
  });
  // Never in blocks: setting sums aside costs more than fetching rows of half the bytes.
  for_tiles(csr, x.cols, false, threads, [&](std::int64_t begin, std::int64_t end) {
    aggregate_bf16_rows(csr, stored, self, row_scale, out, begin, end);
  });
}

void aggregate_halo(const CsrView& csr, const PackedRows& packed, const float* row_scale,
                    MatrixView out, AccumulatorView acc, ThreadPool& threads) {
  const bool in_blocks =
      acc.data == nullptr && packed.format.bits == 32 && blocks_pay(csr, packed.rows, packed.cols);
  for_tiles(csr, packed.cols, in_blocks, threads, [&](std::int64_t begin, std::int64_t end) {
    if (acc.data != nullptr) {
      aggregate_halo_rows_fp64(csr, packed, row_scale, out, acc, begin, end);
    } else {
      aggregate_halo_rows(csr, packed, row_scale, out, in_blocks, begin, end);
    }
  });
}

}  // namespace heliograph::cpu
