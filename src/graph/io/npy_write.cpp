#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/throw_error.hpp"
#include "graph/io/files.hpp"
#include "graph/io/npy.hpp"

namespace heliograph {
namespace {

void write_array(const std::filesystem::path& path, const char* dtype,
                 std::span<const std::byte> bytes, std::size_t values, std::int64_t rows,
                 std::int64_t cols) {
  std::int64_t wanted = 0;
  if (rows < 0 || cols < 0 || __builtin_mul_overflow(rows, cols, &wanted) ||
      static_cast<std::size_t>(wanted) != values) {
    throw_error(ErrorCode::usage, "{}: {} values are not {} rows of {}", path.string(), values,
                rows, cols);
  }
  NpyArray array{.dtype = dtype, .shape = {rows}, .data = bytes};
  if (cols != 1) array.shape.push_back(cols);
  write_npy(path, array);
}

}  // namespace

std::string npy_header(const NpyArray& array) {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': ({}{}), }}", array.dtype,
                  array.column_major ? "True" : "False", fmt::join(array.shape, ", "),
                  array.shape.size() == 1 ? "," : "");
  // The header ends with a line feed, and its padding aligns the data to 64 bytes for mapping.
  constexpr std::size_t kPrefix = 10;
  header.append(63 - (kPrefix + header.size()) % 64, ' ');
  header += '\n';
  std::string head(kNpyMagic);
  head += {'\x01', '\x00', static_cast<char>(header.size() & 0xff),
           static_cast<char>(header.size() >> 8)};
  return head + header;
}

void write_npy(const std::filesystem::path& path, const NpyArray& array) {
  const std::string head = npy_header(array);
  write_file_atomically(path, std::as_bytes(std::span(head)), array.data);
}

void write_npy(const std::filesystem::path& path, std::span<const std::int32_t> values,
               std::int64_t rows, std::int64_t cols) {
  write_array(path, "<i4", std::as_bytes(values), values.size(), rows, cols);
}

void write_npy(const std::filesystem::path& path, std::span<const float> values, std::int64_t rows,
               std::int64_t cols) {
  write_array(path, "<f4", std::as_bytes(values), values.size(), rows, cols);
}

}  // namespace heliograph
