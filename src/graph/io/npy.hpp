#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heliograph/array.hpp"

namespace heliograph {

/// The first bytes of a .npy file.
inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

/// An array in NumPy's .npy format (versions 1 to 3, little endian) whose bytes lie in a mapped
/// file or in memory. Only the conversions below interpret the bytes.
struct NpyArray {
  std::string name = {};  ///< The file, or the archive and member, for messages.
  std::string dtype;      ///< The dtype as written in the header, such as "<f4".
  char kind = 0;          ///< b(ool), i(nt), u(int), f(loat), U or S (strings), O(bjects), ...
  std::int64_t item_bytes = 0;
  bool column_major = false;  ///< The array is in Fortran order.
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
  std::shared_ptr<const void> storage = {};  ///< The owner of `data`.

  std::int64_t elements() const;
  /// The shape for messages, such as "(3, 4)".
  std::string shape_text() const;
};

/// Maps a .npy file. Throws Error(bad_input) that names the file if it is missing, truncated,
/// longer than its header says, or not a .npy file.
NpyArray read_npy(const std::filesystem::path& path);

/// Reads the header at the start of `bytes`; `storage` owns the bytes. Throws as read_npy does.
NpyArray parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> storage,
                   std::string name);

// Conversions return elements in row-major order. Numbers may be bool, int, uint or float of any
// size. A value that does not fit the target and a dtype of any other kind are an Error(bad_input)
// that names the array and the entry.

/// Throws Error(bad_input) unless the array holds numbers.
void require_numbers(const NpyArray& array);
/// Converts numbers to fp32, without a copy if they are row-major fp32 already. NaN and Inf are
/// allowed; a finite value that overflows fp32 is not, nor, with `keeps_nonzero`, one that becomes
/// 0.
Array<float> to_float32(const NpyArray& array, bool keeps_nonzero = false);
/// Converts numbers to int64. Floats must be whole numbers. `advice` ends the error.
std::vector<std::int64_t> to_int64(const NpyArray& array, const char* advice = "");
/// Converts numbers to int32. Floats must be whole numbers, or NaN if `nan` says what stands for
/// it. `advice` ends the error.
std::vector<std::int32_t> to_int32(const NpyArray& array, const char* advice = "",
                                   std::optional<std::int32_t> nan = {});
/// Converts numbers to flags. Each must be 0 or 1.
std::vector<std::uint8_t> to_flags(const NpyArray& array);
/// Converts unicode strings (dtype '<U...') to UTF-8.
std::vector<std::string> to_strings(const NpyArray& array);

/// The numbers of an array, converted to int64 one by one, so that a large array is not copied.
class IntegerView {
 public:
  /// Throws Error(bad_input) that names the array if it does not hold numbers.
  explicit IntegerView(NpyArray array);

  const NpyArray& array() const { return array_; }
  std::int64_t size() const { return array_.elements(); }
  /// The number at position `i` in row-major order, below size(). Throws Error(bad_input) that
  /// names array and entry if it is not a whole number of 64 bits.
  std::int64_t operator[](std::int64_t i) const { return read_(array_, i); }

 private:
  NpyArray array_;
  std::int64_t (*read_)(const NpyArray& array, std::int64_t i) = nullptr;
};

/// The bytes of a .npy file before the data of `array`.
std::string npy_header(const NpyArray& array);

/// Writes `array` under a temporary name that is then renamed. Throws Error: usage (the file cannot
/// be created) or resource (disk full).
void write_npy(const std::filesystem::path& path, const NpyArray& array);

/// Writes a rows x cols array of `values` in row-major order (one axis if cols == 1), under a
/// temporary name that is then renamed. Throws Error: usage (`values` does not have rows x cols
/// elements, or the file cannot be created) or resource (disk full).
void write_npy(const std::filesystem::path& path, std::span<const std::int32_t> values,
               std::int64_t rows, std::int64_t cols);
void write_npy(const std::filesystem::path& path, std::span<const float> values, std::int64_t rows,
               std::int64_t cols);

}  // namespace heliograph
