#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "core/csr.hpp"
#include "core/packed_rows.hpp"
#include "core/thread_pool.hpp"
#include "quant/codec.hpp"

namespace heliograph::bench {

/// The sizes of the benchmarks, from the command line.
struct Sizes {
  std::int64_t rows = 60000;  ///< Halo or neighbour rows.
  std::int64_t outputs = 0;   ///< Rows of sums; 0 is as many as `rows`.
  std::int64_t degree = 50;
  std::int64_t width = 256;
  int threads = 1;
  std::string graph;  ///< Path of a data set for benchmarks of orders; empty generates one.
};

/// The sizes, which main sets before any benchmark runs.
Sizes& sizes();
ThreadPool& threads();

// Data that the benchmarks share, built when first used.
const Csr& random_graph();            ///< outputs x rows with `degree` random entries a row.
ConstMatrixView random_features();    ///< rows x width values from a normal distribution.
MatrixView output();                  ///< max(rows, outputs) x width.
const RowSelection& gathered_rows();  ///< All rows in random order, the worst case for locality.
PackedRows encoded(int bits);         ///< random_features(), encoded; valid until other bits.

}  // namespace heliograph::bench
