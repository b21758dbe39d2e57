#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "graph/io/files.hpp"
#include "graph/io/native_format.hpp"

namespace heliograph {

/// Streams a native directory to disk under a temporary name. Arrays grow chunk by chunk in any
/// order, and `finish` renames the directory to its final name. If anything fails, an old directory
/// stays as it was, and the destructor removes everything written.
/// Members throw Error: usage (see the constructor) or resource (disk full, I/O error).
class NativeWriter {
 public:
  /// Creates missing parent directories. Throws Error(usage) if `directory` exists and `overwrite`
  /// is false, or if `directory` is neither empty nor a native directory.
  NativeWriter(std::filesystem::path directory, bool overwrite);
  NativeWriter(const NativeWriter&) = delete;
  NativeWriter& operator=(const NativeWriter&) = delete;

  /// Appends values to the array `name` (see `native_array`) and creates it if need be, even for no
  /// values. T is int64, int32, float, uint8 or Role.
  template <class T>
  void append(std::string_view name, std::span<const T> values) {
    append_bytes(name, dtype_name<T>(), sizeof(T), std::as_bytes(values));
  }

  /// Writes the manifest, flushes all files to the disk and renames the directory. Throws
  /// Error(usage) if the arrays written are not those of `dataset`, with its dtypes and counts.
  /// Reads no array of `dataset`.
  void finish(const Dataset& dataset);

 private:
  struct Growing {
    FileWriter file;
    std::string_view dtype;
    std::size_t item_bytes;
  };

  void append_bytes(std::string_view name, std::string_view dtype, std::size_t item_bytes,
                    std::span<const std::byte> bytes);
  void check(const Dataset& dataset) const;
  void write_manifest(const Dataset& dataset);

  std::filesystem::path directory_;
  std::optional<NewDirectory> made_;
  bool overwrite_;
  std::map<std::string, Growing, std::less<>> arrays_;
};

}  // namespace heliograph
