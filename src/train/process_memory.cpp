#include "train/process_memory.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

namespace heliograph {
namespace {

namespace fs = std::filesystem;

/// The number at the beginning of `text`; nothing if there is none, as in "max".
std::optional<std::int64_t> leading_number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

/// The number after `key` in the first line that begins with it. An empty key begins every line.
std::optional<std::int64_t> number_after(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return leading_number(std::string_view(line).substr(key.size()));
  }
  return std::nullopt;
}

/// The file names of one version of control groups.
struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable[2];  ///< Keys of cached files, which the system can drop, in memory.stat.
};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes",
                               "memory.usage_in_bytes",
                               {"total_inactive_file ", "total_active_file "}};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", {"inactive_file ", "active_file "}};

std::optional<std::int64_t> left_in(const fs::path& group, const GroupFiles& files) {
  const auto limit = number_after(group / files.limit, "");
  const auto usage = number_after(group / files.usage, "");
  if (!limit || !usage) return std::nullopt;
  std::int64_t cached = 0;
  for (const char* key : files.reclaimable) {
    cached += number_after(group / "memory.stat", key).value_or(0);
  }
  return std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, *usage - cached));
}

/// Lowers `least` to the least that the group `base` / `path` and the groups above it leave.
void tighten(const fs::path& base, std::string path, const GroupFiles& files,
             std::optional<std::int64_t>& least) {
  while (true) {
    const auto left = left_in(path.empty() ? base : base / path.substr(1), files);
    if (left && (!least || *left < *least)) least = left;
    if (path.empty()) return;
    path.erase(std::min(path.rfind('/'), path.size()));
  }
}

}  // namespace

std::int64_t peak_rss_bytes() {
  return number_after("/proc/self/status", "VmHWM:").value_or(0) * 1024;
}

bool reset_peak_rss() {
  std::ofstream clear("/proc/self/clear_refs");
  clear << "5";
  return static_cast<bool>(clear.flush());
}

std::int64_t physical_memory_bytes() {
  return static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

std::int64_t address_space_of_a_rank(int ranks) {
  const std::int64_t physical = physical_memory_bytes();
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return physical;
  const auto share = limit.rlim_cur / 2 / static_cast<rlim_t>(ranks);
  return static_cast<std::int64_t>(std::min<rlim_t>(share, static_cast<rlim_t>(physical)));
}

std::optional<std::int64_t> available_memory_bytes(const fs::path& proc, const fs::path& groups) {
  std::optional<std::int64_t> least = number_after(proc / "meminfo", "MemAvailable:");
  if (least) *least *= 1024;
  // A line is "number:controllers:path"; version 2 has number 0 and no controllers.
  std::ifstream file(proc / "self" / "cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    std::string path = line.substr(second + 1);
    if (path == "/" || !path.starts_with('/')) path.clear();
    if (controllers == ",,") tighten(groups, path, kVersion2, least);
    if (controllers.find(",memory,") != std::string::npos) {
      tighten(groups / "memory", path, kVersion1, least);
    }
  }
  return least;
}

}  // namespace heliograph
