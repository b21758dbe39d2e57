#include "train/output_file.hpp"

#include <cstddef>
#include <span>
#include <system_error>

#include "graph/files.hpp"

namespace heliograph {

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  const auto bytes = std::as_bytes(std::span<const char>(text.data(), text.size()));
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    FileWriter device(path);
    device.write(bytes);
    device.close();
    return;
  }
  std::filesystem::path target = path;
  if (std::filesystem::is_symlink(path, ignored)) {
    target = std::filesystem::weakly_canonical(path, ignored);
    if (ignored) target = path;
  }
  write_file_atomically(target, bytes);
}

}  // namespace heliograph
