#include "train/checkpoint/folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>

#include "core/throw_error.hpp"
#include "graph/io/files.hpp"
#include "heliograph/checkpoint.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "epoch-";
constexpr std::string_view kPartial = ".partial";
constexpr std::string_view kReplaced = ".replaced";

std::optional<int> epochs_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int epochs = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, epochs);
  if (error != std::errc{} || stop != end || name != checkpoint_name(epochs)) return std::nullopt;
  return epochs;
}

/// ".epoch-000123.partial" or ".epoch-000123.replaced".
bool is_remains(const std::string& name) {
  for (const std::string_view suffix : {kPartial, kReplaced}) {
    if (name.starts_with('.') && name.ends_with(suffix) &&
        epochs_of(name.substr(1, name.size() - 1 - suffix.size()))) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string checkpoint_name(int epochs) { return fmt::format("{}{:06}", kPrefix, epochs); }

std::string replaced_name(int epochs) {
  return fmt::format(".{}{}", checkpoint_name(epochs), kReplaced);
}

std::string partial_name(int epochs) {
  return fmt::format(".{}{}", checkpoint_name(epochs), kPartial);
}

std::vector<std::pair<int, fs::path>> list_checkpoints(const fs::path& folder) {
  std::vector<std::pair<int, fs::path>> found;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error && is_there(folder) && fs::is_directory(folder)) {
    throw_error(ErrorCode::bad_input, "cannot read {}: {}", folder.string(), error.message());
  }
  for (const auto& entry : entries) {
    if (const auto epochs = epochs_of(entry.path().filename().string())) {
      found.emplace_back(*epochs, entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<fs::path> list_remains(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (is_remains(entry.path().filename().string())) found.push_back(entry.path());
  }
  return found;
}

void publish_checkpoint(const fs::path& folder, int epochs, FileLayer& files) {
  const fs::path target = folder / checkpoint_name(epochs);
  const fs::path replaced = folder / replaced_name(epochs);
  std::error_code error;
  const bool exists = fs::exists(target, error);
  if (exists) files.remove(replaced);
  std::unique_lock publishing = lock_publishing();
  // A directory that is not empty cannot be renamed over.
  if (exists) files.rename(target, replaced);
  try {
    files.rename(folder / partial_name(epochs), target);
  } catch (const std::exception&) {
    if (exists) {
      try {
        files.rename(replaced, target);
      } catch (const std::exception&) {
        // The first failure is reported. An older checkpoint still exists.
      }
    }
    throw;
  }
  publishing.unlock();
  files.sync_directory(folder);
  if (exists) files.remove(replaced);
}

fs::path newest_checkpoint(const fs::path& folder) {
  const auto found = list_checkpoints(folder);
  return found.empty() ? fs::path() : found.back().second;
}

void remove_checkpoints(const fs::path& folder) {
  for (const auto& [epochs, path] : list_checkpoints(folder)) disk_files().remove(path);
  for (const fs::path& path : list_remains(folder)) disk_files().remove(path);
  std::error_code error;
  if (fs::is_directory(folder, error) && fs::is_empty(folder, error)) {
    disk_files().remove(folder);
  }
}

}  // namespace heliograph
