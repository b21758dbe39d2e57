#include "train/process_memory.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <optional>
#include <string>

#include "support/files.hpp"

// What the machine and its control groups leave to a process.

namespace heliograph {
namespace {

/// Files such as those of /proc and /sys/fs/cgroup, in a temporary folder.
class SystemFiles : public test::FolderTest {
 protected:
  void SetUp() override {
    write("proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable:    4096 kB\n");
    write("proc/self/mountinfo",
          "25 30 0:23 / /groups rw - cgroup2 cgroup2 rw\n"
          "26 30 0:24 / /groups/memory rw - cgroup cgroup rw,memory\n");
  }
  void write(const std::string& path, const std::string& text) const {
    test::write_text(folder_ / path, text);
  }
  std::optional<std::int64_t> available() const { return available_memory_bytes(folder_); }
};

TEST_F(SystemFiles, WithoutLimitsTheMachineCounts) {
  EXPECT_EQ(available(), 4096 * 1024);
  write("proc/self/cgroup", "0::/a/b\n");
  write("groups/a/b/memory.max", "max\n");
  write("groups/a/b/memory.current", "100\n");
  EXPECT_EQ(available(), 4096 * 1024);
}

TEST_F(SystemFiles, TheTightestGroupAboveCounts) {
  write("proc/self/cgroup", "0::/a/b\n");
  write("groups/a/b/memory.max", "900000\n");
  write("groups/a/b/memory.current", "500000\n");
  write("groups/a/b/memory.stat", "file 300000\ninactive_file 200000\n");
  EXPECT_EQ(available(), 600000);
  write("groups/a/memory.max", "700000\n");
  write("groups/a/memory.current", "600000\n");
  EXPECT_EQ(available(), 100000);
  write("groups/a/memory.current", "800000\n");
  EXPECT_EQ(available(), 0);
}

TEST_F(SystemFiles, FilesThatWereReadTwiceYieldAsWell) {
  // Pages of a mapped data set are on the active list although only this process uses them.
  write("proc/self/cgroup", "0::/a\n");
  write("groups/a/memory.max", "900000\n");
  write("groups/a/memory.current", "800000\n");
  write("groups/a/memory.stat", "anon 100000\ninactive_file 200000\nactive_file 500000\n");
  EXPECT_EQ(available(), 800000);
}

TEST_F(SystemFiles, TheFirstVersionsGroupsCountToo) {
  // In a container the path is that of the host, and the limit is in the top folder.
  write("proc/self/cgroup", "3:cpu:/x\n4:memory:/host/path\n0::/\n");
  write("groups/memory/memory.limit_in_bytes", "1000000\n");
  write("groups/memory/memory.usage_in_bytes", "400000\n");
  write("groups/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 150000\n");
  EXPECT_EQ(available(), 750000);
}

TEST_F(SystemFiles, ASystemThatDoesNotTellLimitsNothing) {
  std::filesystem::remove_all(folder_);
  EXPECT_EQ(available(), std::nullopt);
}

TEST(AvailableMemory, IsSomeOfWhatThisMachineHas) {
  const auto bytes = available_memory_bytes();
  ASSERT_TRUE(bytes.has_value());
  EXPECT_GT(*bytes, 0);
  EXPECT_LE(*bytes, physical_memory_bytes());
}

TEST(AddressSpace, IsSharedWhereTheProcessIsLimited) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  if (before.rlim_cur == RLIM_INFINITY) {
    EXPECT_EQ(address_space_of_a_rank(4), physical_memory_bytes());
  }
  const rlim_t limit = std::min<rlim_t>(rlim_t{1} << 33, before.rlim_max);
  const rlimit tight{limit, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  const std::int64_t share = address_space_of_a_rank(1000);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(share, static_cast<std::int64_t>(limit) / 2000);
}

}  // namespace
}  // namespace heliograph
