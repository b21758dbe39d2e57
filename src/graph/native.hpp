#pragma once

#include <filesystem>

#include "heliograph/dataset.hpp"

namespace heliograph {

/// True if a manifest, or its checksum, lies in the directory.
bool is_native(const std::filesystem::path& directory);

/// Maps a native directory and verifies every checksum; load_dataset validates what it holds.
/// Throws Error(bad_input) that names the file which is missing, damaged or of another version.
Dataset load_native(const std::filesystem::path& directory);

}  // namespace heliograph
