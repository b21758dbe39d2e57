#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/descriptor.hpp"

struct XXH64_state_s;

namespace heliograph {

/// The XXH64 of bytes that are added piece by piece.
class RunningHash {
 public:
  explicit RunningHash(std::uint64_t seed = 0);
  void add(std::span<const std::byte> bytes);
  std::uint64_t value() const;

 private:
  struct Free {
    void operator()(XXH64_state_s* state) const noexcept;
  };
  std::unique_ptr<XXH64_state_s, Free> state_;
};

/// Deflate shrinks data at most this many times, so that a larger claim is damage.
inline constexpr std::int64_t kMostInflation = 1032;

/// Whether there is something at `path`. Throws Error(bad_input) that names it if the system does
/// not tell, as of a folder that may not be searched.
bool is_there(const std::filesystem::path& path);

struct RegularFile {
  Descriptor descriptor;
  std::size_t bytes = 0;
};

/// Opens a file for reading. Throws Error(bad_input) that names the file if it is missing,
/// unreadable or not a regular file.
RegularFile open_regular(const std::filesystem::path& path);

/// A whole file mapped for reading, until its last reference is gone. As with every mapped file, an
/// access faults if another process has shortened the file meanwhile.
class MappedFile {
 public:
  /// Maps a file. Throws Error(bad_input) that names the file if it is missing, unreadable or not a
  /// regular file, and Error(resource) if it cannot be mapped.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

/// Bytes in a file without a name, for data that may be larger than memory: the system writes pages
/// out and reads them again. The file is in the folder TMPDIR or, since /tmp may itself be memory,
/// in /var/tmp. Throws Error(resource) that names the folder if it has no room.
class ScratchBytes {
 public:
  explicit ScratchBytes(std::size_t size);
  ~ScratchBytes();
  ScratchBytes(const ScratchBytes&) = delete;
  ScratchBytes& operator=(const ScratchBytes&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

/// A new file that is written front to back, while its size and XXH64 are counted. Members throw an
/// Error that names the file: resource (disk full, quota or file size limit, I/O error) or usage
/// (the file cannot be created).
class FileWriter {
 public:
  explicit FileWriter(std::filesystem::path path);

  void write(std::span<const std::byte> bytes);

  /// Flushes the file to the disk and closes it. A writer that is destroyed before leaves an
  /// incomplete file.
  void close();

  std::uint64_t size() const { return size_; }
  /// The XXH64 (seed 0) of all bytes written so far.
  std::uint64_t hash() const { return hash_.value(); }

 private:
  void flush();

  std::filesystem::path path_;
  RunningHash hash_;  // Precedes the descriptor, since its construction may change open's errno.
  Descriptor descriptor_;
  std::vector<std::byte> buffer_;
  std::uint64_t size_ = 0;
};

/// A file that is read front to back, while its XXH64 is computed. It keeps nothing in memory.
/// Members throw Error(bad_input) that names the file if it is missing, truncated or unreadable.
class FileReader {
 public:
  explicit FileReader(std::filesystem::path path);

  /// Fills `bytes` with the next bytes of the file.
  void read(std::span<std::byte> bytes);
  std::uint64_t size() const { return size_; }
  /// The XXH64 (seed 0) of all bytes read so far.
  std::uint64_t hash() const { return hash_.value(); }

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
  std::uint64_t size_ = 0;
  RunningHash hash_;
};

/// Flushes the entries of a directory to the disk, if its file system can. Ignores errors.
void sync_directory(const std::filesystem::path& path) noexcept;

/// Flushes a file that others have written to the disk. Throws Error(resource) that names it.
void sync_file(const std::filesystem::path& path);

/// Renames a file or directory and flushes the new name to the disk. Throws Error(resource) that
/// names both paths.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

/// A name in the directory of `target` that no other process uses, under which a file or directory
/// is written before it becomes `target`. The destructor removes what was not published.
class TemporaryPath {
 public:
  /// Throws Error(usage) if the target exists and is neither a file nor a directory.
  explicit TemporaryPath(std::filesystem::path target);
  ~TemporaryPath();
  TemporaryPath(const TemporaryPath&) = delete;
  TemporaryPath& operator=(const TemporaryPath&) = delete;

  const std::filesystem::path& target() const { return target_; }
  const std::filesystem::path& path() const { return temporary_; }

  /// Renames a file to the target. Throws Error(resource) that names both paths.
  void publish();

 private:
  std::filesystem::path target_, temporary_;
};

/// A directory that the caller fills under a temporary name before it is published under its final
/// name. Readers see either the old directory or the complete new one. A directory that was not
/// published is removed.
class NewDirectory {
 public:
  /// Creates it under the temporary name, and its parents. Throws Error(usage, resource).
  explicit NewDirectory(std::filesystem::path target);

  const std::filesystem::path& temporary() const { return temporary_.path(); }

  /// Renames the directory to the target, replacing an old one. Throws Error(resource); the old
  /// directory is then still in place.
  void publish();

 private:
  TemporaryPath temporary_;
};

/// Removes the files and directories that are not published, while other threads may write them,
/// and returns those that are. The process must end right after it: threads that make, publish or
/// destroy one, or call `lock_publishing`, from now on wait for ever. Waits while another thread
/// publishes one; unless `waits`, it gives up after a tenth of a second and does nothing.
std::vector<std::filesystem::path> abandon_unpublished(bool waits) noexcept;

/// Lets `abandon_unpublished` wait while a directory is published by other means.
std::unique_lock<std::timed_mutex> lock_publishing();

/// Writes a file under a temporary name and renames it. Readers see either the old file or the
/// complete new one, and a failed write leaves nothing behind. Throws as FileWriter does.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> head,
                           std::span<const std::byte> body = {});

/// The XXH64 (seed 0) of these bytes.
std::uint64_t xxh64(std::span<const std::byte> bytes);

/// The value as 16 lower-case hexadecimal digits.
std::string hex64(std::uint64_t value);

}  // namespace heliograph
