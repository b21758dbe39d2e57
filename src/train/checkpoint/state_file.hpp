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

/// What the manifest of a checkpoint knows of one of its files.
struct FileRecord {
  std::uint64_t bytes = 0;
  std::uint64_t xxh64 = 0;
  bool operator==(const FileRecord&) const = default;
};

/// Writes a state file: named sections, each with a checksum of its own (docs/checkpoints.md).
/// Bytes go to the sink as they come; nothing is kept. Throws what the sink throws.
class StateWriter {
 public:
  explicit StateWriter(std::unique_ptr<FileSink> sink);

  void section(const std::string& name, std::span<const std::byte> payload);
  template <class T>
  void section(const std::string& name, std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    section(name, std::as_bytes(values));
  }

  /// Ends the file, flushes and closes it.
  FileRecord close();

 private:
  std::unique_ptr<FileSink> sink_;
};

/// A state file that is whole: made only if every section matches its checksum, and all bytes
/// match `record`. The file is mapped while this lives.
class StateFile {
 public:
  /// Throws Error(bad_input) that names the file and the first section at fault.
  StateFile(std::filesystem::path path, const FileRecord& record);

  /// Throws Error(bad_input) if the file has no such section.
  std::span<const std::byte> section(const std::string& name) const;
  /// Copies a section that must hold exactly these values. Throws Error(bad_input).
  template <class T>
  void read(const std::string& name, std::span<T> values) const {
    static_assert(std::is_trivially_copyable_v<T>);
    read_bytes(name, std::as_writable_bytes(values));
  }
  /// A section of any number of values. Throws Error(bad_input).
  template <class T>
  std::size_t count(const std::string& name) const {
    return count_items(name, sizeof(T));
  }

  /// Throws Error(bad_input): `what` of a section, by file and name.
  [[noreturn]] void refuse(const std::string& name, const std::string& what) const;

 private:
  void read_bytes(const std::string& name, std::span<std::byte> bytes) const;
  std::size_t count_items(const std::string& name, std::size_t item_bytes) const;

  std::filesystem::path path_;
  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, std::span<const std::byte>> sections_;
};

}  // namespace heliograph
