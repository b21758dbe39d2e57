// The CPU quotas of containers: made-up trees of /proc and of control groups.
#include "core/control_groups.hpp"

#include <gtest/gtest.h>

#include <string>

#include "core/thread.hpp"
#include "support/files.hpp"

namespace heliograph {
namespace {

class ControlGroups : public test::FolderTest {
 protected:
  void write(const std::string& path, const std::string& text) const {
    test::write_text(folder_ / path, text);
  }
  std::optional<int> quota() const { return quota_of_cpus(folder_); }
};

TEST_F(ControlGroups, WithoutAQuotaNothingIsLimited) {
  EXPECT_EQ(quota(), std::nullopt);
  write("proc/self/mountinfo", "25 30 0:23 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  write("proc/self/cgroup", "0::/a\nno line of a group\n\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/a/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), std::nullopt);
}

TEST_F(ControlGroups, TheTightestQuotaAboveCountsAndIsRoundedUp) {
  write("proc/self/mountinfo",
        "24 30 0:22 / /proc rw - proc proc rw\n"
        "25 30 0:23 / /sys/fs/cgroup rw,nosuid shared:4 master:1 - cgroup2 cgroup2 rw\n");
  write("proc/self/cgroup", "0::/pod/box\n");
  write("sys/fs/cgroup/pod/box/cpu.max", "800000 100000\n");
  EXPECT_EQ(quota(), 8);
  write("sys/fs/cgroup/pod/cpu.max", "250000 100000\n");
  EXPECT_EQ(quota(), 3);
  write("sys/fs/cgroup/cpu.max", "1000 100000\n");
  EXPECT_EQ(quota(), 1);
}

TEST_F(ControlGroups, InAContainerOnlyItsOwnGroupsAreMounted) {
  write("proc/self/mountinfo",
        "30 25 0:26 /docker/7f /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
        "31 25 0:27 /docker/7f /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  write("proc/self/cgroup", "5:memory:/docker/7f\n4:cpu,cpuacct:/docker/7f/inner\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(quota(), 3);
  write("sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 3);
  write("sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us", "200000\n");
  EXPECT_EQ(quota(), 2);
}

TEST_F(ControlGroups, APathThatIsNotMountedMeansTheMountedGroup) {
  write("proc/self/mountinfo", "25 30 0:23 /else /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  write("proc/self/cgroup", "0::/elsewhere/a\n");
  write("sys/fs/cgroup/cpu.max", "500000 100000\n");
  write("sys/fs/cgroup/where/a/cpu.max", "100000 100000\n");
  EXPECT_EQ(quota(), 5);
}

TEST(UsableCores, AreNoMoreThanTheAffinityMaskAllows) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), allowed_cpus());
}

}  // namespace
}  // namespace heliograph
