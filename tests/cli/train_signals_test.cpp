#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/files.hpp"
#include "cli/process.hpp"
#include "cli/sample.hpp"
#include "support/files.hpp"

// What training does when its process gets a signal.

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using test::read_json;
using test::read_lines;
using test::read_text;
using test::run_command;
using test::train_arguments;
using ::testing::HasSubstr;

class TrainSignals : public test::CommandTest {
 protected:
  static constexpr NodeId kRingNodes = 200;
  TrainSignals() : CommandTest(kRingNodes) {}
};

TEST_F(TrainSignals, StopsOnASignalAndKeepsWhatWasWritten) {
  const std::pair<int, int> cases[] = {{SIGINT, 130}, {SIGTERM, 143}};
  for (const auto& [signal, code] : cases) {
    const fs::path run = folder_ / ("run" + std::to_string(signal));
    // An epoch takes half a second, so that the epochs after the signal can be counted.
    std::size_t before = 0;
    const auto outcome = run_command(
        train_arguments(data_, 1000, {"--out", run.string(), "--link-latency-us", "25000"}),
        [&, s = signal](int child) {
          const auto epochs = [&] {
            const std::string text = read_text(run / "metrics.jsonl");
            return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
          };
          EXPECT_TRUE(test::wait_until([&] { return epochs() >= 2; }, 60));
          ::kill(child, s);
          before = epochs();
        });
    EXPECT_EQ(outcome.code, code) << outcome.err;
    const auto lines = read_lines(run / "metrics.jsonl");
    EXPECT_GE(lines.size(), 2U);
    EXPECT_LE(lines.size(), before + 2) << "the epoch under way, and one more by a late signal";
    const auto manifest = read_json(run / "run.json");
    EXPECT_EQ(manifest.at("status"), "interrupted");
    EXPECT_EQ(manifest.at("signal"), signal == SIGINT ? "SIGINT" : "SIGTERM");
    EXPECT_EQ(manifest.at("epochs_written"), lines.size());
  }
}

// Ctrl-C ends `tee` too, and `head` ends once it has its lines.
TEST_F(TrainSignals, AReaderThatLeavesEndsNoRun) {
  for (const int unread : {STDOUT_FILENO, STDERR_FILENO}) {
    for (const bool stops : {false, true}) {
      const std::string run = folder_ / fmt::format("unread_{}_{}", unread, stops);
      const std::vector<std::string> arguments =
          stops ? train_arguments(data_, 1000, {"--out", run, "--link-latency-us", "25000"})
                : train_arguments(data_, 5, {"--out", run});
      const auto outcome = run_command(
          arguments,
          [&](int child) {
            if (!stops) return;
            const fs::path metrics = fs::path(run) / "metrics.jsonl";
            EXPECT_TRUE(test::wait_until(
                [&] { return fs::exists(metrics) && fs::file_size(metrics) > 0; }, 60));
            ::kill(child, SIGINT);
          },
          unread);
      EXPECT_EQ(outcome.code, stops ? 130 : 0) << outcome.err;
      EXPECT_EQ(read_json(fs::path(run) / "run.json").at("status"),
                stops ? "interrupted" : "completed");
      EXPECT_TRUE(fs::exists(fs::path(run) / "best.safetensors"));
    }
  }
}

TEST_F(TrainSignals, AnInterruptAtTheStartIsAnswered) {
  const auto interrupted = [&](const std::vector<std::string>& words) {
    return run_command(words, [](int child) { ::kill(child, SIGINT); });
  };
  const std::vector<std::string> endless = train_arguments(data_, 1000000, {"--quiet"});
  for (int i = 0; i < 20; ++i) {
    const auto outcome = run_command(endless, [&](int child) {
      std::this_thread::sleep_for(std::chrono::milliseconds(i));
      ::kill(child, SIGINT);
    });
    EXPECT_EQ(outcome.code, 130) << outcome.err;
  }
  // A signal that waits until the command's first statement cannot come before it.
  sigset_t interrupt, before;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupt, &before);
  for (const auto& words : {endless, {"generate", "--out", path("made")}, {"info"}, {"--help"}}) {
    const auto outcome = interrupted(words);
    EXPECT_EQ(outcome.code, 130) << words[0];
    EXPECT_EQ(outcome.err, "heliograph: stopped by SIGINT\n") << words[0];
    EXPECT_EQ(outcome.out, "") << words[0];
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST_F(TrainSignals, LeavesAnIgnoredInterruptIgnored) {
  auto* const handler = std::signal(SIGINT, SIG_IGN);  // The command inherits this.
  const fs::path run = folder_ / "run";
  const auto outcome =
      run_command(train_arguments(data_, 2000, {"--out", run.string()}), [&](int child) {
        EXPECT_TRUE(
            test::wait_until([&] { return !read_text(run / "metrics.jsonl").empty(); }, 60));
        ::kill(child, SIGINT);
      });
  std::signal(SIGINT, handler);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(read_json(run / "run.json").at("status"), "completed");
}

TEST_F(TrainSignals, EndsByForceInAnEpochThatDoesNotEnd) {
  // A message takes five seconds, so that the first epoch is longer than the grace period.
  const auto outcome = run_command(
      train_arguments(data_, 5, {"--out", path("run"), "--link-latency-us", "1e6"}),
      [&](int child) {
        EXPECT_TRUE(test::wait_until([&] { return fs::exists(folder_ / "run" / "run.json"); }, 60));
        ::kill(child, SIGTERM);
      });
  EXPECT_EQ(outcome.code, 143) << outcome.err;
  EXPECT_TRUE(read_lines(folder_ / "run" / "metrics.jsonl").empty());
  EXPECT_EQ(read_json(folder_ / "run" / "run.json").at("status"), "interrupted");
  EXPECT_THAT(outcome.err, HasSubstr("stopped by SIGTERM at once; no epoch had ended, so the same "
                                     "command starts the run again\n"));
  EXPECT_EQ(run_command(train_arguments(data_, 1, {"--out", path("run")})).code, 0);
}

TEST_F(TrainSignals, NamesACheckpointThatWasSavedAsTheRunWasEnded) {
  // metrics.jsonl was closed before the epoch ended, and the test is the thread that saves it.
  const fs::path run = folder_ / "run";
  const auto outcome =
      run_command(train_arguments(data_, 5, {"--out", run.string(), "--link-latency-us", "1e6"}),
                  [&](int child) {
                    EXPECT_TRUE(test::wait_until([&] { return fs::exists(run / "run.json"); }, 60));
                    fs::create_directories(run / "checkpoints" / "epoch-000001");
                    ::kill(child, SIGTERM);
                  });
  EXPECT_EQ(outcome.code, 143) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("at once; the newest checkpoint is that after 1 epoch: "));
}

// A pipe without a reader holds up the writing of results.
TEST_F(TrainSignals, ASignalAfterTheLastEpochStopsNothing) {
  const std::string pipe = path("summary");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const fs::path run = folder_ / "run";
  const auto outcome = run_command(
      train_arguments(data_, 2, {"--out", run.string(), "--summary", pipe}), [&](int child) {
        EXPECT_TRUE(test::wait_until(
            [&] { return read_text(run / "run.json").find("\"completed\"") != std::string::npos; },
            60));
        ::kill(child, SIGINT);
        EXPECT_THAT(read_text(pipe), HasSubstr("stop_reason"));
      });
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("test auc "));
  EXPECT_FALSE(read_json(run / "run.json").contains("signal"));
}

TEST_F(TrainSignals, PrintsScoresThatCannotBeWritten) {
  const fs::path run = folder_ / "run";
  const auto outcome =
      run_command(train_arguments(data_, 1000000, {"--out", run.string()}), [&](int child) {
        EXPECT_TRUE(
            test::wait_until([&] { return !read_text(run / "metrics.jsonl").empty(); }, 60));
        fs::create_directories(run / "predictions.npy" / "in the way");
        ::kill(child, SIGTERM);
      });
  EXPECT_EQ(outcome.code, 4) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("predictions.npy"));
  EXPECT_THAT(outcome.out, HasSubstr("test auc "));
}

// Ctrl-Z and fg: ranks that were stopped have not waited for each other. Rank 1 has one node, so it
// waits most of the time.
TEST_F(TrainSignals, AStoppedProcessGoesOn) {
  const auto lines = [&] { return test::read_lines(folder_ / "run" / "metrics.jsonl").size(); };
  std::string owners;
  for (NodeId v = 0; v < kRingNodes; ++v) owners += v == 0 ? "1\n" : "0\n";
  test::write_text(folder_ / "owners", owners);
  const auto outcome =
      run_command(train_arguments(data_, 1000000,
                                  {"--out", path("run"), "--timeout", "2", "--hidden", "1024",
                                   "--layers", "3", "--partitioner", "file:" + path("owners")}),
                  [&](int child) {
                    EXPECT_TRUE(test::wait_until(
                        [&] { return !read_text(folder_ / "run" / "metrics.jsonl").empty(); }, 60));
                    // Not just after an epoch, where rank 0 would answer at once.
                    std::this_thread::sleep_for(std::chrono::milliseconds(300));
                    ::kill(child, SIGSTOP);
                    std::this_thread::sleep_for(std::chrono::seconds(3));
                    const auto before = lines();
                    ::kill(child, SIGCONT);
                    EXPECT_TRUE(test::wait_until([&] { return lines() > before + 1; }, 60));
                    ::kill(child, SIGTERM);
                  });
  EXPECT_EQ(outcome.code, 143) << outcome.err;
}

}  // namespace
}  // namespace heliograph
