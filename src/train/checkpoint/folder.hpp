#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "train/file_layer.hpp"

namespace heliograph {

// Names and paths in a folder of checkpoints (docs/checkpoints.md).

/// "epoch-000123", the name of the checkpoint after 123 epochs.
std::string checkpoint_name(int epochs);
/// ".epoch-000123.partial", its name while it is written.
std::string partial_name(int epochs);
/// ".epoch-000123.replaced", its name while it is removed.
std::string replaced_name(int epochs);

/// The checkpoints in a folder, whole or damaged, as epochs that had run and path; oldest first.
/// None if there is no such folder. Throws Error(bad_input) if it cannot be read.
std::vector<std::pair<int, std::filesystem::path>> list_checkpoints(
    const std::filesystem::path& folder);

/// The partial and replaced checkpoints that interrupted saves left in a folder.
std::vector<std::filesystem::path> list_remains(const std::filesystem::path& folder);

/// Renames the checkpoint that was written under `partial_name` to `checkpoint_name`, replacing an
/// earlier one, and makes that durable. Throws Error(resource).
void publish_checkpoint(const std::filesystem::path& folder, int epochs, FileLayer& files);

}  // namespace heliograph
