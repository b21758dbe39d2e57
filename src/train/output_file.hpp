#pragma once

#include <filesystem>
#include <string_view>

namespace heliograph {

/// Writes a whole text file: readers see the old one or the new one. A symbolic link keeps
/// pointing where it does; a device or pipe, which no file may replace, is written to directly.
/// Throws Error that names the file: resource (disk full) or usage (it cannot be created).
void write_text_file(const std::filesystem::path& path, std::string_view text);

}  // namespace heliograph
