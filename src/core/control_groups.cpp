#include "core/control_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace heliograph {
namespace {

namespace fs = std::filesystem;

/// A place at which groups are mounted.
struct Mount {
  std::string group;  ///< The group that lies at `point`.
  std::string point;
  int version = 2;
  std::string options;
};

/// Whether a list with commas contains `name`.
bool lists(const std::string& list, std::string_view name) {
  return fmt::format(",{},", list).find(fmt::format(",{},", name)) != std::string::npos;
}

/// Reads mountinfo: "36 35 0:30 GROUP POINT OPTIONS [TAGS] - TYPE SOURCE OPTIONS".
std::vector<Mount> read_mounts(const fs::path& path) {
  std::vector<Mount> mounts;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string skipped, type;
    Mount mount;
    words >> skipped >> skipped >> skipped >> mount.group >> mount.point;
    while (words >> skipped && skipped != "-") continue;
    words >> type >> skipped >> mount.options;
    if (type != "cgroup" && type != "cgroup2") continue;
    mount.version = type == "cgroup2" ? 2 : 1;
    if (mount.group == "/") mount.group.clear();
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

std::optional<std::int64_t> number_in(const fs::path& path) {
  std::int64_t value = 0;
  std::ifstream file(path);
  return file >> value ? std::optional(value) : std::nullopt;
}

/// The CPUs that a group may use together; nothing if it has no quota.
std::optional<double> quota_of(const ControlGroup& group) {
  std::optional<std::int64_t> quota, period;
  if (group.version == 1) {
    quota = number_in(group.folder / "cpu.cfs_quota_us");
    period = number_in(group.folder / "cpu.cfs_period_us");
  } else {
    std::ifstream file(group.folder / "cpu.max");  // "QUOTA PERIOD", or "max PERIOD".
    std::int64_t values[2];
    if (file >> values[0] >> values[1]) quota = values[0], period = values[1];
  }
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

}  // namespace

std::vector<ControlGroup> control_groups(std::string_view controller, const fs::path& root) {
  const std::vector<Mount> mounts = read_mounts(root / "proc/self/mountinfo");
  std::vector<ControlGroup> found;
  // A line is "number:controllers:path"; version 2 has number 0 and no controllers.
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = std::min(line.find(':'), line.size() - 1);
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const int version = controllers.empty() ? 2 : 1;
    if (version == 1 && !lists(controllers, controller)) continue;
    for (const Mount& mount : mounts) {
      if (mount.version != version || (version == 1 && !lists(mount.options, controller))) continue;
      // In a container the path may be that of the host, whose upper groups are not mounted.
      std::string path = line.substr(second + 1);
      const bool inside = (path + "/").starts_with(mount.group + "/");
      path = inside && path != "/" ? path.substr(mount.group.size()) : "";
      while (true) {
        found.push_back({root / (mount.point + path).substr(1), version});
        if (path.empty()) break;
        path.erase(path.rfind('/'));
      }
    }
  }
  return found;
}

std::optional<int> quota_of_cpus(const fs::path& root) {
  std::optional<double> least;
  for (const ControlGroup& group : control_groups("cpu", root)) {
    const std::optional<double> quota = quota_of(group);
    if (quota && (!least || *quota < *least)) least = quota;
  }
  if (!least) return std::nullopt;
  return static_cast<int>(std::clamp(std::ceil(*least), 1.0, 1e6));
}

}  // namespace heliograph
