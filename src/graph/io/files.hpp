#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/descriptor.hpp"
#include "heliograph/array.hpp"

struct XXH64_state_s;

namespace heliograph {

/// XXH64 (seed 0) of bytes that come one piece after the other.
class RunningHash {
 public:
  RunningHash();
  void add(std::span<const std::byte> bytes);
  std::uint64_t value() const;

 private:
  struct Free {
    void operator()(XXH64_state_s* state) const noexcept;
  };
  std::unique_ptr<XXH64_state_s, Free> state_;
};

/// A whole file, mapped for reading. The mapping ends with the last reference to it; a file that
/// somebody shortens meanwhile faults, as for every mapped file.
class MappedFile {
 public:
  /// Throws Error(bad_input) that names a file which is missing or cannot be read, or is no
  /// regular file.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

/// A new file that is written front to back, with its size and its XXH64 kept on the way.
/// All members throw Error: resource (disk full, quota or file size limit, I/O error) or usage
/// (the file cannot be created), and name the file.
class FileWriter {
 public:
  explicit FileWriter(std::filesystem::path path);

  void write(std::span<const std::byte> bytes);

  /// Flushes to the disk and closes. A writer that dies unclosed leaves its file as it is.
  void close();

  std::uint64_t size() const { return size_; }
  /// XXH64 (seed 0) of everything written so far.
  std::uint64_t hash() const { return hash_.value(); }

 private:
  void flush();

  std::filesystem::path path_;
  RunningHash hash_;  // Before the descriptor: whoever opens reads errno next.
  Descriptor descriptor_;
  std::vector<std::byte> buffer_;
  std::uint64_t size_ = 0;
};

/// A file that is read front to back, with its XXH64 kept on the way: nothing of it stays in
/// memory. All members throw Error(bad_input) that names a file which is missing, cut short or
/// unreadable.
class FileReader {
 public:
  explicit FileReader(std::filesystem::path path);

  /// Fills `bytes`.
  void read(std::span<std::byte> bytes);
  std::uint64_t size() const { return size_; }
  /// XXH64 (seed 0) of everything read so far.
  std::uint64_t hash() const { return hash_.value(); }

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
  std::uint64_t size_ = 0;
  RunningHash hash_;
};

/// A name beside `path` that no other process uses, for writing before renaming.
std::filesystem::path temporary_sibling(const std::filesystem::path& path);

/// Makes the entries of a directory durable, as far as its file system can.
void sync_directory(const std::filesystem::path& path) noexcept;

/// Renames and makes the new name durable. Throws Error(resource) that names both.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

/// A directory that is filled under a temporary name, which nobody else uses, before it takes its
/// place: readers see the old one or the new one. What is not published is removed.
class NewDirectory {
 public:
  /// Creates nothing.
  explicit NewDirectory(std::filesystem::path target);
  ~NewDirectory();
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;

  const std::filesystem::path& temporary() const { return temporary_; }

  /// Replaces what lies at the target. Throws Error(resource); the old directory is there then.
  void publish();

 private:
  std::filesystem::path target_, temporary_;
  bool published_ = false;
};

/// Writes a whole file under a temporary name, then renames it: readers see the old file or the
/// new one, and a failed write leaves nothing. Throws as FileWriter does.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> head,
                           std::span<const std::byte> body = {});

/// XXH64 (seed 0).
std::uint64_t xxh64(std::span<const std::byte> bytes);

/// 16 hexadecimal digits.
std::string hex64(std::uint64_t value);

}  // namespace heliograph
