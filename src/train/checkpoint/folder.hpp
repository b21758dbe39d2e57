#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "train/file_layer.hpp"

namespace heliograph {

// How checkpoints lie in their folder (docs/checkpoints.md).

/// "epoch-000123": of a checkpoint after so many epochs.
std::string checkpoint_name(int epochs);
/// ".epoch-000123.partial": while it is written.
std::string partial_name(int epochs);
/// Of one that is about to go.
std::string replaced_name(int epochs);

/// Checkpoints of a folder, oldest first, whole or not: epochs that had run, and path.
std::vector<std::pair<int, std::filesystem::path>> list_checkpoints(
    const std::filesystem::path& folder);

/// What interrupted saves have left in a folder.
std::vector<std::filesystem::path> list_remains(const std::filesystem::path& folder);

/// Puts the checkpoint that was written under `partial_name` in its place, where nothing or
/// another one lies, and makes that durable. Throws Error(resource).
void publish_checkpoint(const std::filesystem::path& folder, int epochs, FileLayer& files);

}  // namespace heliograph
