#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heliograph::bench {

struct Sizes {
  std::int64_t rows = 200000;     ///< Neighbour or halo rows.
  std::int64_t outputs = 100000;  ///< Rows of sums.
  std::vector<std::int64_t> degrees{50, 492};
  std::vector<std::int64_t> widths{256, 128, 64, 47, 41, 32};
  std::int64_t copy_mib = 512;           ///< Size of the copy to which kernels are compared.
  std::int64_t gemm = 8192;              ///< Side of the matrices of the product for comparison.
  std::int64_t gradient_rows = 2449029;  ///< Most rows of weight gradients.
  double seconds = 0.3;                  ///< Least time of measuring for each kernel.
};

/// The bytes and operations of one call.
struct Work {
  double once = 0;      ///< Bytes read or written, each counted once.
  double gathered = 0;  ///< Bytes, with rows counted again for each edge that reads them.
  double flops = 0;
  double source = 0;  ///< Bytes of the rows that edges read, each row counted once.
};

struct Result {
  std::string name;
  double seconds;
  Work work;
  double subtracted = 0;        ///< Seconds that were measured too, but are not the kernel's.
  std::optional<bool> repeats;  ///< Whether another call had the same bits, where that was asked.
};

/// Prints a table on standard output.
void print(const std::vector<Result>& results);

/// Writes the results as JSON, replacing the file as a whole. Throws std::runtime_error.
void write_json(const std::vector<Result>& results, const Sizes& sizes, const std::string& path);

}  // namespace heliograph::bench
