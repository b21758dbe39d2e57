#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "graph/io/files.hpp"
#include "train/file_layer.hpp"

namespace heliograph {

/// Size and checksum of a file of a checkpoint, as in its manifest.
struct FileRecord {
  std::uint64_t bytes = 0;
  std::uint64_t xxh64 = 0;
  bool operator==(const FileRecord&) const = default;
};

/// Writes a state file: named sections, each with its own checksum (docs/checkpoints.md). Passes
/// bytes on to the sink at once. Throws what the sink throws.
class StateWriter {
 public:
  explicit StateWriter(std::unique_ptr<FileSink> sink);

  void section(const std::string& name, std::span<const std::byte> payload);
  template <class T>
  void section(const std::string& name, std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    section(name, std::as_bytes(values));
  }

  /// Ends the file, flushes and closes it. Returns its size and checksum.
  FileRecord close();

 private:
  std::unique_ptr<FileSink> sink_;
};

/// A state file whose checksums have been verified. The file is mapped while the object lives.
class StateFile {
 public:
  /// Throws Error(bad_input) that names the file and the first damaged section, unless each section
  /// matches its checksum and the whole file matches `record`.
  StateFile(std::filesystem::path path, const FileRecord& record);

  bool has(const std::string& name) const { return sections_.contains(name); }
  /// Throws Error(bad_input) if the file has no such section.
  std::span<const std::byte> section(const std::string& name) const;
  /// Copies a section to `values`. Throws Error(bad_input) unless the section has their size.
  template <class T>
  void read(const std::string& name, std::span<T> values) const {
    static_assert(std::is_trivially_copyable_v<T>);
    read_bytes(name, std::as_writable_bytes(values));
  }
  /// The number of values in a section. Throws Error(bad_input) if there is no such section, or if
  /// its size is not a multiple of a value's.
  template <class T>
  std::size_t count(const std::string& name) const {
    return count_items(name, sizeof(T));
  }

  /// Throws Error(bad_input): "FILE: field NAME WHAT".
  [[noreturn]] void refuse(const std::string& name, const std::string& what) const;

 private:
  void read_bytes(const std::string& name, std::span<std::byte> bytes) const;
  std::size_t count_items(const std::string& name, std::size_t item_bytes) const;

  std::filesystem::path path_;
  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, std::span<const std::byte>> sections_;
};

}  // namespace heliograph
