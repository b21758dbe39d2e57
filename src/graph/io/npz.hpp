#pragma once

#include <filesystem>
#include <memory>
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

}  // namespace heliograph
