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

/// Streams a native directory to disk: arrays grow chunk by chunk, in any interleaving, under a
/// temporary name beside the final one; `finish` puts the directory in its place. Until then, and
/// if anything fails, nothing lies under the final name (or the old directory still does).
/// All members throw Error: usage (see the constructor), resource (disk full, I/O error).
class NativeWriter {
 public:
  /// Missing parent directories are created. Throws Error(usage) if `directory` exists and
  /// `overwrite` is false, or if it is neither empty nor a native directory.
  NativeWriter(std::filesystem::path directory, bool overwrite);

  /// What was written is removed, unless `finish` returned.
  NativeWriter(const NativeWriter&) = delete;
  NativeWriter& operator=(const NativeWriter&) = delete;

  /// Appends to the array `name` (a name of `native_array`). T: int64, int32, float, uint8, Role.
  /// An empty chunk makes the array exist.
  template <class T>
  void append(std::string_view name, std::span<const T> values) {
    append_bytes(name, dtype_name<T>(), sizeof(T), std::as_bytes(values));
  }

  /// Checks that the arrays are those that `dataset`, of which arrays are not read, asks for, with
  /// dtypes and counts that fit (else Error(usage)), writes the manifest, flushes to the disk and
  /// renames.
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
