#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace heliograph {

/// A control group that limits this process: its own, or one above it.
struct ControlGroup {
  std::filesystem::path folder;
  int version = 2;  ///< 1 or 2.
};

/// The groups that limit "cpu" or "memory" for this process, its own first, as far up as it can see
/// them. Tests give a `root` in which proc/self/cgroup, proc/self/mountinfo and the groups lie.
std::vector<ControlGroup> control_groups(std::string_view controller,
                                         const std::filesystem::path& root = "/");

/// The least CPU quota of those groups, in CPUs, rounded up; nothing if there is none.
std::optional<int> quota_of_cpus(const std::filesystem::path& root = "/");

}  // namespace heliograph
