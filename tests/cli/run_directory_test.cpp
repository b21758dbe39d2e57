#include "train/run/run_directory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <chrono>
#include <functional>
#include <thread>

#include "cli/files.hpp"
#include "core/descriptor.hpp"
#include "graph/io/npy.hpp"
#include "heliograph/error.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "train/run/output_file.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using test::read_json;
using test::read_lines;
using test::read_text;
using test::TemporaryDirectory;

EpochReport epoch(int number) {
  EpochReport report;
  report.epoch = number;
  report.loss = 1.0 / (number + 1);
  return report;
}

TEST(RunDirectory, WritesEachLineAtOnceAndFinishes) {
  const TemporaryDirectory folder;
  const fs::path out = folder / "a" / "run";
  RunDirectory run(out, false, {{"seed", 3}});
  EXPECT_EQ(read_json(out / "run.json").at("status"), "running");
  run.append(epoch(0));
  run.append(epoch(1));
  const auto lines = read_lines(out / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[1].at("epoch"), 1);
  EXPECT_DOUBLE_EQ(lines[1].at("loss"), 0.5);

  run.finish("completed", {{"result", 7}});
  const auto manifest = read_json(out / "run.json");
  EXPECT_EQ(manifest.at("status"), "completed");
  EXPECT_EQ(manifest.at("result"), 7);
  EXPECT_EQ(manifest.at("seed"), 3);
  EXPECT_EQ(manifest.at("epochs_written"), 2);
  EXPECT_EQ(manifest.at("format"), "heliograph-run");
}

TEST(RunDirectory, TheFirstFinishCounts) {
  const TemporaryDirectory folder;
  RunDirectory run(folder / "run", false, {});
  run.finish("completed", nlohmann::ordered_json::object());
  run.abandon("interrupted", {{"signal", "SIGINT"}}, 0.1);
  EXPECT_EQ(read_json(folder / "run" / "run.json").at("status"), "completed");
}

TEST(RunDirectory, AbandonDoesNotWaitForOutputs) {
  const TemporaryDirectory folder;
  RunDirectory run(folder / "run", false, {});
  TrainResult result;
  result.model.emplace();
  int files = 0;
  run.write_outputs(result, [&](const std::string&) {
    ++files;
    run.abandon("interrupted", {{"signal", "SIGINT"}}, 0.1);
    EXPECT_EQ(read_json(folder / "run" / "run.json").at("status"), "interrupted");
  });
  EXPECT_EQ(files, 1);
}

TEST(RunDirectory, AbandonMarksTheRun) {
  const TemporaryDirectory folder;
  RunDirectory run(folder / "run", false, {});
  run.append(epoch(0));
  run.abandon("interrupted", {{"signal", "SIGTERM"}}, 0.1);
  run.append(epoch(1));  // The training thread goes on until the process ends.
  const auto manifest = read_json(folder / "run" / "run.json");
  EXPECT_EQ(manifest.at("epochs_written"), 1);
  EXPECT_EQ(read_lines(folder / "run" / "metrics.jsonl").size(), 1U);
  EXPECT_EQ(manifest.at("status"), "interrupted");
  EXPECT_EQ(manifest.at("signal"), "SIGTERM");
}

TEST(RunDirectory, IsRefusedWhereARunLies) {
  const TemporaryDirectory folder;
  { const RunDirectory run(folder / "run", false, {{"seed", 1}}); }
  test::expect_error(ErrorCode::usage, "overwrite",
                     [&] { RunDirectory::check(folder / "run", false); });
  test::expect_error(ErrorCode::usage, "run.json",
                     [&] { const RunDirectory run(folder / "run", false, {}); });
  EXPECT_EQ(read_json(folder / "run" / "run.json").at("seed"), 1);
}

TEST(RunDirectory, ARunThatEndsWhileAnotherBeginsIsNotReplaced) {
  const TemporaryDirectory folder;
  // The second run waits for whoever replaces a run here.
  const fs::path next = folder / ".run.json.next";
  test::write_text(next, "{}");
  Descriptor first(::open((folder / "metrics.jsonl").c_str(), O_CREAT | O_WRONLY, 0666));
  ASSERT_EQ(::flock(first.get(), LOCK_EX), 0);
  std::thread second([&] {
    test::expect_error(ErrorCode::usage, "already holds a run (best.safetensors)",
                       [&] { const RunDirectory run(folder.path(), false, {}); });
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  test::write_text(folder / "best.safetensors", "the first run's");
  fs::remove(next);
  first.close();
  second.join();
}

/// A directory with a run of one epoch, its predictions and somebody's notes.
fs::path make_run(const fs::path& out) {
  RunDirectory run(out, false, {{"seed", 1}});
  run.append(epoch(0));
  run.finish("completed", {{"result", 7}});
  test::write_text(out / "predictions.npy", "old");
  test::write_text(out / "notes.txt", "mine");
  fs::create_directories(RunDirectory::checkpoints(out) / "epoch-000001");
  return out;
}

void expect_old_run(const fs::path& out) {
  EXPECT_EQ(read_lines(out / "metrics.jsonl").size(), 1U);
  EXPECT_EQ(read_text(out / "predictions.npy"), "old");
  EXPECT_TRUE(fs::exists(RunDirectory::checkpoints(out) / "epoch-000001"));
  EXPECT_EQ(read_json(out / "run.json").at("seed"), 1);
}

/// Expects the run with seed 2, which has written `lines` lines, and nothing of the earlier one.
void expect_new_run(const fs::path& out, std::size_t lines) {
  EXPECT_EQ(read_lines(out / "metrics.jsonl").size(), lines);
  EXPECT_FALSE(fs::exists(out / "predictions.npy"));
  EXPECT_FALSE(fs::exists(RunDirectory::checkpoints(out)));
  EXPECT_FALSE(fs::exists(out / ".run.json.next"));
  EXPECT_EQ(read_text(out / "notes.txt"), "mine");
  EXPECT_EQ(read_json(out / "run.json").at("seed"), 2);
}

TEST(RunDirectory, TheFirstEpochReplacesTheRunAndNothingElse) {
  const TemporaryDirectory folder;
  const fs::path out = make_run(folder / "run");
  for (const char* status : {"failed", "interrupted"}) {
    RunDirectory run(out, true, {{"seed", 2}});
    expect_old_run(out);
    run.finish(status, {{"error", "x"}});
    run.abandon("interrupted", {{"signal", "SIGTERM"}}, 0.1);
  }
  expect_old_run(out);
  RunDirectory run(out, true, {{"seed", 2}});
  run.append(epoch(0));
  run.append(epoch(1));
  expect_new_run(out, 2);
}

TEST(RunDirectory, AReplacementThatDiedIsCompleted) {
  const TemporaryDirectory folder;
  const fs::path out = make_run(folder / "run");
  const fs::path next = out / ".run.json.next";
  {
    test::write_text(next, R"({"format": "heliograph-run", "seed": 2})");
    const RunDirectory writing(folder / "other", false, {});
    RunDirectory::complete_replacement(out);
    expect_new_run(out, 0);
  }
  // The process died when it had removed part of the earlier run.
  test::write_text(out / "predictions.npy", "old");
  test::write_text(next, R"({"format": "heliograph-run", "seed": 2})");
  const RunDirectory run(out, true, {{"seed", 3}});
  expect_new_run(out, 0);
}

TEST(RunDirectory, ADamagedReplacementChangesNothing) {
  const TemporaryDirectory folder;
  const fs::path out = make_run(folder / "run");
  const fs::path next = out / ".run.json.next";
  for (const char* text : {"", "garbage", "{}"}) {
    test::write_text(next, text);
    test::expect_error(ErrorCode::bad_input, next.string() + " is not the run.json of a run",
                       [&] { RunDirectory::of(out); });
    test::expect_error(ErrorCode::bad_input, "remove that file",
                       [&] { const RunDirectory run(out, true, {}); });
    expect_old_run(out);
  }
}

TEST(RunDirectory, CheckpointsMustBeAFolder) {
  const TemporaryDirectory folder;
  test::write_text(folder / "checkpoints", "");
  for (const bool overwrite : {false, true}) {
    test::expect_error(ErrorCode::usage, {"checkpoints is not a directory", "choose another"},
                       [&] { RunDirectory::check(folder.path(), overwrite); });
  }
}

// A named pipe would make whoever opens it wait.
TEST(RunDirectory, NamesOfItsFilesMustBeFiles) {
  for (const char* name : {"run.json", ".run.json.next", "metrics.jsonl", "predictions.npy"}) {
    SCOPED_TRACE(name);
    for (const bool pipe : {false, true}) {
      const TemporaryDirectory folder;
      const fs::path out = make_run(folder / "run");
      fs::remove(out / name);
      if (pipe) {
        ASSERT_EQ(::mkfifo((out / name).c_str(), 0666), 0);
      } else {
        fs::create_directory(out / name);
      }
      const std::string error = (out / name).string() + " is not a file";
      test::expect_error(ErrorCode::usage, error, [&] { RunDirectory::check(out, true); });
      test::expect_error(ErrorCode::usage, error, [&] { const RunDirectory run(out, true, {}); });
      test::expect_error(ErrorCode::usage, error,
                         [&] { const RunDirectory run(out, RunDirectory::Resumed{}, {}); });
      if (fs::exists(out / ".run.json.next")) {
        test::expect_error(ErrorCode::usage, {error, "; remove it"},
                           [&] { RunDirectory::of(out); });
      } else {
        if (!fs::is_regular_file(out / "run.json")) {
          test::expect_error(ErrorCode::bad_input, error, [&] { RunDirectory::of(out); });
        }
        EXPECT_NO_THROW(RunDirectory::complete_replacement(out));
      }
      EXPECT_TRUE(fs::exists(RunDirectory::checkpoints(out) / "epoch-000001"));
      EXPECT_TRUE(fs::exists(out / name));
    }
  }
}

TEST(RunDirectory, AStartThatFailedIsReplacedWithoutAsking) {
  const TemporaryDirectory folder;
  const fs::path out = folder / "run";
  const nlohmann::ordered_json manifest{{"seed", 2}, {"result", nullptr}};
  for (const char* status : {"failed", "interrupted", "running"}) {
    RunDirectory run(out, false, manifest);
    run.finish(status, {{"error", "x"}});
  }
  RunDirectory run(out, false, manifest);
  EXPECT_EQ(read_json(out / "run.json").at("status"), "running");
  run.append(epoch(0));
  test::expect_error(ErrorCode::usage, "metrics.jsonl", [&] { RunDirectory::check(out, false); });
}

TEST(RunDirectory, AnEmptyOrForeignDirectoryIsWelcome) {
  const TemporaryDirectory folder;
  test::write_text(folder / "notes.txt", "mine");
  EXPECT_NO_THROW(RunDirectory::check(folder.path(), false));
  EXPECT_NO_THROW(RunDirectory::check(folder / "missing", false));
  test::write_text(folder / "file", "x");
  test::expect_error(ErrorCode::usage, "not a directory",
                     [&] { RunDirectory::check(folder / "file", true); });
}

TEST(RunDirectory, AResumedRunKeepsResultsUntilItHasItsOwn) {
  const TemporaryDirectory folder;
  const fs::path out = make_run(folder / "run");
  test::write_text(out / "logits.npy", "old");
  RunDirectory run(out, RunDirectory::Resumed{}, {});
  run.resume(std::vector{epoch(0)});
  run.append(epoch(1));
  EXPECT_EQ(read_text(out / "predictions.npy"), "old");
  TrainResult result;
  result.predictions = {4, 5, 6};
  run.write_outputs(result);
  EXPECT_NE(read_text(out / "predictions.npy"), "old");
  EXPECT_FALSE(fs::exists(out / "logits.npy"));
}

TEST(RunDirectory, OneRunAtATime) {
  const TemporaryDirectory folder;
  const RunDirectory first(folder / "run", false, {});
  test::expect_error(ErrorCode::usage, "another process",
                     [&] { const RunDirectory second(folder / "run", true, {}); });
  EXPECT_TRUE(fs::exists(folder / "run" / "run.json"));
}

TEST(RunDirectory, WritesPredictionsInOneOrTwoDimensions) {
  const TemporaryDirectory folder;
  RunDirectory run(folder / "run", false, {});
  TrainResult result;
  run.write_outputs(result);
  EXPECT_FALSE(fs::exists(folder / "run" / "predictions.npy"));

  result.predictions = {4, 5, 6};
  result.scores = {0.5F, 0.25F, 1.0F};
  run.write_outputs(result);
  EXPECT_EQ(to_int32(read_npy(folder / "run" / "predictions.npy")),
            (std::vector<std::int32_t>{4, 5, 6}));
  EXPECT_EQ(read_npy(folder / "run" / "predictions.npy").shape, (std::vector<std::int64_t>{3}));
  EXPECT_EQ(to_float32(read_npy(folder / "run" / "scores.npy"))[1], 0.25F);

  result.predictions = {0, 1, 1, 0, 1, 1};
  result.prediction_cols = 2;
  run.write_outputs(result);
  EXPECT_EQ(read_npy(folder / "run" / "predictions.npy").shape, (std::vector<std::int64_t>{3, 2}));
}

TEST(OutputFile, AFullDiskNamesTheFileAndSparesTheDevice) {
  if (!fs::is_character_file("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  test::expect_error(ErrorCode::resource, "/dev/full", [] { write_text_file("/dev/full", "x"); });
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST(OutputFile, FollowsLinksAndReplacesWholeFiles) {
  const TemporaryDirectory folder;
  write_text_file(folder / "file", "one");
  fs::create_symlink("file", folder / "link");
  write_text_file(folder / "link", "two");
  EXPECT_EQ(read_text(folder / "file"), "two");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  test::expect_error(ErrorCode::usage, "missing",
                     [&] { write_text_file(folder / "missing/f", "x"); });
}

}  // namespace
}  // namespace heliograph
