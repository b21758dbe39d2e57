#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "graph/io/npy.hpp"

namespace heliograph {

/// A NumPy archive (.npz): a zip file of .npy members, stored or deflated. Only members that are
/// asked for are read; what they hold is interpreted by the conversions of npy.hpp alone, so
/// pickled objects never are.
class NpzArchive {
 public:
  /// Throws Error(bad_input) if the file is no zip archive.
  explicit NpzArchive(const std::filesystem::path& path);
  ~NpzArchive();

  /// Members go by their name without ".npy".
  bool has(const std::string& member) const;

  /// Throws Error(bad_input) that names the archive and a member which is missing, damaged
  /// (checksum of the archive) or no .npy array.
  NpyArray read(const std::string& member) const;

  /// Empty where there is no such member.
  std::optional<NpyArray> read_if_present(const std::string& member) const;

 private:
  struct Handle;
  std::string path_;
  std::unique_ptr<Handle> handle_;
};

}  // namespace heliograph
