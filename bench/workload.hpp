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

/// Sizes that the command line sets.
struct Sizes {
  std::int64_t rows = 60000;  ///< Halo or neighbour rows.
  std::int64_t outputs = 0;   ///< Rows that are aggregated into; 0: as many as `rows`.
  std::int64_t degree = 50;
  std::int64_t width = 256;
  int threads = 1;
  std::string graph;  ///< Path of a data set for what is measured on a graph; empty: generated.
};

/// Set once in main, before any benchmark runs.
Sizes& sizes();
ThreadPool& threads();

/// What the benchmarks share; built when first used.
const Csr& random_graph();            ///< outputs x rows, `degree` random entries a row.
ConstMatrixView random_features();    ///< rows x width, normal.
MatrixView output();                  ///< As many rows as the larger of `rows` and `outputs`.
const RowSelection& gathered_rows();  ///< All rows in random order: a worst case for locality.
PackedRows encoded(int bits);         ///< random_features(), encoded; kept for one width of code.

}  // namespace heliograph::bench
