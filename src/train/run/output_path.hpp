#pragma once

#include <filesystem>
#include <string>

namespace heliograph {

/// A file that an option names and a command writes.
struct OutputPath {
  const char* flag;  ///< Without its dashes.
  std::string path;
  const char* kind;  ///< What the file holds, such as "a .npy file".
  bool (*is_kind)(const std::filesystem::path& file);
  bool overwrite = true;  ///< Whether a file of this kind may be replaced.
};

/// Throws Error(usage) if the output cannot be written, lies in a native data set, shards or a
/// checkpoint, or would replace anything but a file of its kind that is not part of `data`, the
/// data set that the command reads (may be empty), nor an array or list in another data set.
void require_writable(const OutputPath& output, const std::string& data);

/// Whether a regular file is of this kind: NumPy's .npy; lines of owners as write_partition makes.
bool is_npy(const std::filesystem::path& file);
bool is_owner_list(const std::filesystem::path& file);

}  // namespace heliograph
