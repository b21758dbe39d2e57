#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heliograph/array.hpp"

namespace heliograph {

/// An array in NumPy's .npy format (versions 1 to 3, little endian) whose bytes live in a mapped
/// file or in memory. Nothing in it is interpreted before one of the conversions below.
struct NpyArray {
  std::string name;   ///< For messages: the file, or archive and member.
  std::string dtype;  ///< As written, such as "<f4".
  char kind = 0;      ///< b(ool), i(nt), u(int), f(loat), U or S (strings), O(bjects), ...
  std::int64_t item_bytes = 0;
  bool column_major = false;  ///< Fortran order.
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
  std::shared_ptr<const void> storage;  ///< Keeps `data` alive.

  std::int64_t elements() const;
  /// "(3, 4)", for messages.
  std::string shape_text() const;
};

/// Maps a .npy file. Throws Error(bad_input) that names a file which is missing, truncated,
/// longer than its header says, or no .npy file.
NpyArray read_npy(const std::filesystem::path& path);

/// Reads the header at the start of `bytes`, which `storage` keeps alive.
NpyArray parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> storage,
                   std::string name);

/// Conversions, in row-major order. Bool, int, uint and float of every size are accepted where
/// each value fits the target; others throw Error(bad_input) that names array and entry, and so
/// do objects, strings, big-endian and structured dtypes.

/// Borrows the bytes where they are row-major fp32 already. NaN and Inf pass (who uses the values
/// judges them); a finite value beyond fp32 does not.
Array<float> to_float32(const NpyArray& array);
/// Floats must be whole numbers.
std::vector<std::int64_t> to_int64(const NpyArray& array);
std::vector<std::int32_t> to_int32(const NpyArray& array);
/// Values 0 and 1 only.
std::vector<std::uint8_t> to_flags(const NpyArray& array);
/// Unicode strings ('<U...') as UTF-8.
std::vector<std::string> to_strings(const NpyArray& array);

/// Writes a rows x cols array in row-major order (1-D if cols == 1): under a temporary name first,
/// then renamed. Throws Error: usage (the size of `values` is not rows * cols, or the file cannot
/// be created), resource (disk full).
void write_npy(const std::filesystem::path& path, std::span<const std::int32_t> values,
               std::int64_t rows, std::int64_t cols);
void write_npy(const std::filesystem::path& path, std::span<const float> values, std::int64_t rows,
               std::int64_t cols);

}  // namespace heliograph
