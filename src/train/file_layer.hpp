#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "core/function_ref.hpp"

namespace heliograph {

/// A file that is written front to back. Members throw Error(resource, usage) that names the file.
class FileSink {
 public:
  virtual ~FileSink() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;
  /// Flushes to the disk and closes.
  virtual void close() = 0;
  virtual std::uint64_t size() const = 0;
  /// XXH64 (seed 0) of everything written so far.
  virtual std::uint64_t hash() const = 0;
};

/// The operations by which saving changes the disk. Tests replace it to make any of them fail.
/// Members throw Error(resource, usage) that names the path.
class FileLayer {
 public:
  virtual ~FileLayer() = default;

  /// Creates the directory and its parents, as far as they do not exist.
  virtual void make_directories(const std::filesystem::path& path) = 0;
  virtual std::unique_ptr<FileSink> create(const std::filesystem::path& path) = 0;
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  /// Makes the entries of a directory durable.
  virtual void sync_directory(const std::filesystem::path& path) = 0;
  /// Removes a file, or a directory with its contents, if it exists.
  virtual void remove(const std::filesystem::path& path) = 0;
};

/// The disk itself.
FileLayer& disk_files();

/// Lets `write` fill and close a file under a temporary name and renames it to `path`. A failed
/// write leaves nothing behind.
void write_and_rename(const std::filesystem::path& path,
                      FunctionRef<void(std::unique_ptr<FileSink>)> write);

}  // namespace heliograph
