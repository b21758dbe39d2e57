#pragma once

#include <filesystem>
#include <string>

namespace heliograph {

/// What a file that a command writes holds.
struct FileKind {
  const char* name;  ///< Such as "a list of owners".
  /// Whether a file that exists is of this kind.
  bool (*matches)(const std::filesystem::path& file);
  bool may_be_data = false;  ///< Whether import reads files of this kind.
};

/// What write_outputs writes: predictions, a score a node, and a row a node.
extern const FileKind kPredictionArray, kScoreArray, kRowArray;
/// A table of nodes as export writes it.
extern const FileKind kNodeTable;

/// A file that an option names and a command writes.
struct OutputPath {
  const char* flag;  ///< Without its dashes.
  std::string path;
  FileKind kind;
  bool overwrite = true;  ///< Whether a file of this kind may be replaced.
};

/// Throws Error(usage) if the output cannot be written, lies in a native data set, shards or a
/// checkpoint, has the name of a file of the run in whose directory it lies, or would replace
/// anything but a file of its kind outside a data set's folder.
void require_writable(const OutputPath& output);

/// The same for the files of a partition that write_partition writes to `path`.
void require_writable_partition(const char* flag, const std::string& path, bool overwrite);

}  // namespace heliograph
