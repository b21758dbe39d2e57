#pragma once

#include <filesystem>
#include <string>

#include "heliograph/options.hpp"

namespace heliograph {

// A checkpoint is a directory with everything that a run needs to resume (docs/checkpoints.md). A
// folder of checkpoints holds several, each named by the number of epochs that had run.

/// The manifest of a checkpoint.
struct CheckpointInfo {
  std::filesystem::path path;
  int epochs = 0;  ///< How many epochs had run; also the number of the next epoch.
  int ranks = 0;
  std::string dataset_name, dataset_hash, partition_hash;
  /// The options of the run that saved it, without checkpoint.folder and checkpoint.resume. To
  /// resume with them, set `resume`, and either `folder` or `every = 0`.
  TrainOptions options;
};

/// Reads only the manifest of the checkpoint at `path`. Throws Error: bad_input (missing or
/// damaged; names the file and the field), mismatch (another format version).
CheckpointInfo read_checkpoint(const std::filesystem::path& path);

/// Reads and checks every byte of the checkpoint at `path`. Throws as `read_checkpoint` does; the
/// message names the newest intact checkpoint before it in the same folder, if there is one.
CheckpointInfo verify_checkpoint(const std::filesystem::path& path);

/// The newest checkpoint in `folder`, which may be damaged; an empty path if there is none.
std::filesystem::path newest_checkpoint(const std::filesystem::path& folder);

/// Removes all checkpoints and the remains of interrupted saves from `folder`, and then `folder` if
/// it is empty. Throws Error(resource) that names what could not be removed.
void remove_checkpoints(const std::filesystem::path& folder);

}  // namespace heliograph
