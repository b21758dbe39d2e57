#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "cli/checkpoints.hpp"
#include "cli/files.hpp"
#include "cli/process.hpp"
#include "heliograph/checkpoint.hpp"
#include "support/files.hpp"

// Checkpoints where the disk is full, system calls fail or the process is killed.

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using test::read_json;
using test::read_lines;
using test::run_command;
using ::testing::HasSubstr;

class CheckpointFailures : public test::CheckpointTest {};

/// Arguments of a run whose checkpoints are too large for its disk. Each rank saves the whole state
/// of the optimizer.
std::vector<std::string> large(std::vector<std::string> words) {
  words.insert(words.end(), {"--hidden", "96", "--layers", "3", "--gradient-bits", "8"});
  return words;
}

TEST_F(CheckpointFailures, AFileSizeLimitSparesTheRunOrEndsItByOption) {
  ASSERT_EQ(run_command(arguments("kept", 2, large({"--checkpoint-every", "2"}))).code, 0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  // The weights fit into it; the optimizer's state, which is twice as large, does not.
  const rlimit small{100 << 10, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto goes_on = run_command(arguments("on", 4, large({"--checkpoint-every", "2"})));
  const auto stops = run_command(
      arguments("off", 4, large({"--checkpoint-every", "2", "--on-save-failure", "stop"})));
  const auto resumed = run_command(
      {"train", "--resume", path("kept"), "--epochs", "4", "--on-save-failure", "stop"});
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(resumed.code, 4) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("epoch-000002 is whole"));
  EXPECT_EQ(goes_on.code, 0) << goes_on.err;
  EXPECT_THAT(goes_on.err, HasSubstr("warning: the checkpoint after 2 epochs was not saved"));
  EXPECT_EQ(read_lines(folder_ / "on" / "metrics.jsonl").size(), 4U);
  EXPECT_EQ(stops.code, 4) << stops.err;
  EXPECT_THAT(stops.err,
              HasSubstr("error: rank 0, epoch 1: the checkpoint after 2 epochs was not"));
  EXPECT_THAT(stops.err, HasSubstr("rank-0000"));
  EXPECT_EQ(read_json(folder_ / "off" / "run.json").at("status"), "failed");
}

/// A small disk that exists as long as the object.
class SmallDisk {
 public:
  SmallDisk(fs::path path, const char* size) : path_(std::move(path)) {
    fs::create_directories(path_);
    mounted_ = ::mount("none", path_.c_str(), "tmpfs", 0, size) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }

 private:
  fs::path path_;
  bool mounted_;
};

TEST_F(CheckpointFailures, AFullDiskLeavesTheLastCheckpointWhole) {
  if (::geteuid() != 0) GTEST_SKIP() << "a small disk is mounted by root only";
  // One checkpoint (about 330 kB) and the run's weights fit; the next checkpoint does not.
  const SmallDisk disk(folder_ / "disk", "size=540k");
  if (!disk.mounted()) GTEST_SKIP() << "this system lets nobody mount a small disk";
  const auto outcome = run_command(arguments("disk/run", 6, large({"--checkpoint-every", "2"})));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("No space left on device"));
  const fs::path checkpoints = folder_ / "disk" / "run" / "checkpoints";
  EXPECT_EQ(newest_checkpoint(checkpoints).filename(), "epoch-000002");
  EXPECT_NO_THROW(verify_checkpoint(newest_checkpoint(checkpoints)));
  const auto resumed = run_command({"train", "--resume", path("disk/run"), "--out", path("saved")});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  expect_same_run("disk/run", "saved");
}

/// The exit code of the command under strace with these injections.
int run_injected(const std::string& injection, const std::vector<std::string>& words) {
  std::string line = "strace -f -qq -o /dev/null -e trace=file,desc -e inject=" + injection + " " +
                     HELIOGRAPH_COMMAND;
  for (const std::string& word : words) line += " '" + word + "'";
  const int status = std::system((line + " >/dev/null 2>&1").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_F(CheckpointFailures, FailuresOfTheSystemSpareTheCheckpointBefore) {
  if (std::system("strace -o /dev/null true >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "strace is not installed, or may not trace here";
  }
  const std::vector<std::string> more{"--checkpoint-every", "2", "--on-save-failure", "stop"};
  for (const char* injection :
       {"fsync:error=EIO:when=6", "rename:error=EIO:when=2", "fsync:error=ENOSPC:when=8"}) {
    const int code = run_injected(injection, arguments("run", 4, [&] {
                                    auto words = more;
                                    words.emplace_back("--overwrite");
                                    return words;
                                  }()));
    EXPECT_EQ(code, 4) << injection;
    for (const auto& entry : fs::directory_iterator(folder_ / "run" / "checkpoints")) {
      if (entry.path().filename().string().starts_with("epoch-")) {
        EXPECT_NO_THROW(verify_checkpoint(entry.path())) << injection;
      }
    }
  }
}

// Wherever a process dies that replaces a run, the old one or the new one is there.
TEST_F(CheckpointFailures, AKilledReplacementLeavesOneRun) {
  if (std::system("strace -o /dev/null true >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "strace is not installed, or may not trace here";
  }
  const std::vector<std::string> old = arguments("old", 2, {"--checkpoint-every", "1"});
  ASSERT_EQ(run_command(old).code, 0);
  int old_ones = 0, new_ones = 0;
  for (const char* point : {"ftruncate:signal=KILL:when=1", "rename:signal=KILL:when=1",
                            "rename:signal=KILL:when=2", "unlink:signal=KILL:when=1",
                            "unlinkat:signal=KILL:when=1", "unlinkat:signal=KILL:when=4"}) {
    const fs::path run = folder_ / "run";
    fs::remove_all(run);
    fs::copy(folder_ / "old", run, fs::copy_options::recursive);
    const auto words = arguments("run", 1, {"--overwrite", "--seed", "7"});
    ASSERT_EQ(run_injected(point, words), 128 + SIGKILL) << point;
    const fs::path copy = folder_ / "copy";
    const std::string best = (copy / "best.safetensors").string(),
                      saved = (copy / "checkpoints" / "epoch-000002").string();
    const std::vector<std::string> train{"train", "--data", data_, "--epochs", "1"};
    const auto with = [](std::vector<std::string> command, const std::vector<std::string>& more) {
      command.insert(command.end(), more.begin(), more.end());
      return command;
    };
    for (const std::vector<std::string>& opens :
         {std::vector<std::string>{"eval", "--data", data_, "--checkpoint", copy.string()},
          {"eval", "--data", data_, "--checkpoint", best},
          with(train, {"--config", copy.string()}),
          with(train, {"--init-from", copy.string()}),
          with(train, {"--init-from", best}),
          with(train, {"--out", copy.string()}),
          {"train", "--resume", saved}}) {
      fs::remove_all(copy);
      fs::copy(run, copy, fs::copy_options::recursive);
      const bool replaced = fs::exists(copy / ".run.json.next");
      const bool lost = replaced && (fs::exists(opens.back()) && fs::path(opens.back()) != copy);
      const auto opened = run_command(opens);
      EXPECT_FALSE(fs::exists(copy / ".run.json.next")) << point << opens.back();
      if (!lost) continue;
      EXPECT_EQ(opened.code, 3) << point << opens.back();
      EXPECT_THAT(opened.err, HasSubstr("the replacement is complete now, and it is gone"));
    }
    const auto resumed = run_command({"train", "--resume", run.string()});
    if (read_json(run / "run.json").at("seed") == 7) {
      ++new_ones;
      EXPECT_EQ(resumed.code, 3) << point;
      EXPECT_THAT(resumed.err,
                  HasSubstr("the run has no checkpoint, so it cannot go on; train with --overwrite "
                            "starts it again"))
          << point;
      EXPECT_LE(read_lines(run / "metrics.jsonl").size(), 1U) << point;
      EXPECT_FALSE(fs::exists(run / "predictions.npy")) << point;
    } else {
      ++old_ones;
      EXPECT_EQ(resumed.code, 0) << point << resumed.err;
      expect_same_run("old", "run");
    }
  }
  EXPECT_GT(old_ones, 0);
  EXPECT_GT(new_ones, 0);
}

}  // namespace
}  // namespace heliograph
