#include "train/process_memory.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

#include "core/control_groups.hpp"

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

std::optional<std::int64_t> available_memory_bytes(const fs::path& root) {
  std::optional<std::int64_t> least = number_after(root / "proc/meminfo", "MemAvailable:");
  if (least) *least *= 1024;
  for (const ControlGroup& group : control_groups("memory", root)) {
    const auto left = left_in(group.folder, group.version == 1 ? kVersion1 : kVersion2);
    if (left && (!least || *left < *least)) least = left;
  }
  return least;
}

}  // namespace heliograph
