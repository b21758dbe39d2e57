#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heliograph::bench {

struct Sizes {
  std::int64_t rows = 200000;     ///< Neighbour or halo rows.
  std::int64_t outputs = 100000;  ///< Rows that are aggregated into.
  std::int64_t degree = 50;
  std::int64_t width = 256;
  std::int64_t copy_mib = 512;  ///< Of the copy that others are held against.
  std::int64_t gemm = 8192;     ///< Side of the product that others are held against.
  double seconds = 0.3;         ///< Of measuring, at least, for each kernel.
};

/// What one call moves and computes. `once`: everything that it reads or writes, counted once;
/// `gathered`: rows that it reads again for each edge counted each time.
struct Work {
  double once = 0;
  double gathered = 0;
  double flops = 0;
};

struct Result {
  std::string name;
  double seconds;
  Work work;
};

/// A table on standard output.
void print(const std::vector<Result>& results);

/// The file is replaced as a whole. Throws std::runtime_error.
void write_json(const std::vector<Result>& results, const Sizes& sizes, const std::string& path);

}  // namespace heliograph::bench
