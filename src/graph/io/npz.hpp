#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "graph/io/array_source.hpp"

namespace heliograph {

/// A NumPy archive (.npz): a zip file of .npy members, stored or deflated. Members are named
/// without
/// ".npy". Only requested members are read, and only the conversions of npy.hpp interpret them, so
/// pickled objects are never loaded.
class NpzArchive final : public ArraySource {
 public:
  /// Opens an archive. Throws Error(bad_input) if the file is not a zip archive.
  explicit NpzArchive(const std::filesystem::path& path);
  ~NpzArchive() override;

 private:
  /// Reads a member and compares the archive's checksum. Throws Error(bad_input) that names the
  /// archive and the member if the member is missing, damaged or not a .npy array.
  NpyArray load(const std::string& member) const override;

  struct Handle;
  std::unique_ptr<Handle> handle_;
};

/// Writes an archive with one stored member for each of `arrays`, as numpy.savez does; the same
/// arrays give the same bytes. Writes under a temporary name that is then renamed. Throws Error:
/// usage (the file cannot be created) or resource (disk full).
void write_npz(const std::filesystem::path& path, std::span<const NpyArray> arrays);

}  // namespace heliograph
