#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "graph/io/npy.hpp"

namespace heliograph {

/// A NumPy archive (.npz): a zip file of .npy members, stored or deflated. Members are named
/// without
/// ".npy". Only requested members are read, and only the conversions of npy.hpp interpret them, so
/// pickled objects are never loaded.
class NpzArchive {
 public:
  /// Opens an archive. Throws Error(bad_input) if the file is not a zip archive.
  explicit NpzArchive(const std::filesystem::path& path);
  ~NpzArchive();

  bool has(const std::string& member) const;

  /// Reads a member and compares the archive's checksum. Throws Error(bad_input) that names the
  /// archive and the member if the member is missing, damaged or not a .npy array.
  NpyArray read(const std::string& member) const;

  /// Reads a member as `read` does; nothing if the archive has no such member.
  std::optional<NpyArray> read_if_present(const std::string& member) const;

 private:
  struct Handle;
  std::string path_;
  std::unique_ptr<Handle> handle_;
};

}  // namespace heliograph
