#include "heliograph/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "cli/checkpoints.hpp"
#include "cli/files.hpp"
#include "cli/process.hpp"
#include "cli/sample.hpp"
#include "graph/io/npy.hpp"
#include "support/files.hpp"

// Checkpoints, --resume and eval of the command.

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using test::read_json;
using test::read_lines;
using test::read_text;
using test::run_command;
using test::train_arguments;
using ::testing::HasSubstr;

class Checkpoint : public test::CheckpointTest {};

TEST_F(Checkpoint, ARunGoesOnWhereItsCheckpointIs) {
  ASSERT_EQ(run_command(arguments("whole", 12)).code, 0);
  ASSERT_EQ(run_command(arguments("cut", 7, {"--checkpoint-every", "4"})).code, 0);
  ASSERT_TRUE(fs::exists(saved("cut", 4)));
  // Options and run directory are those of the run.
  auto outcome = run_command({"train", "--resume", path("cut"), "--epochs", "12"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  expect_same_run("whole", "cut");
  EXPECT_EQ(read_json(folder_ / "cut" / "run.json").at("resumed_after_epochs"), 7);
  EXPECT_FALSE(fs::exists(saved("cut", 4)));
  ASSERT_TRUE(fs::exists(saved("cut", 8)));

  // Resuming from an older checkpoint removes later lines and writes them again.
  outcome = run_command({"train", "--resume", path("cut")});
  EXPECT_THAT(outcome.err, HasSubstr("the run has had its 12 epochs; a larger --epochs goes on"));
  outcome = run_command({"train", "--resume", saved("cut", 8).string()});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  expect_same_run("whole", "cut");

  // With --out, the resumed run has another directory.
  outcome = run_command({"train", "--resume", saved("cut", 8).string(), "--out", path("apart")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  expect_same_run("whole", "apart");
  EXPECT_EQ(read_lines(folder_ / "apart" / "metrics.jsonl").size(), 12U);

  // A run without a further epoch also leaves a checkpoint of its own.
  outcome = run_command({"train", "--resume", path("cut"), "--out", path("over")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  expect_same_run("whole", "over");
  ASSERT_EQ(run_command(arguments("longer", 15)).code, 0);
  for (const char* name : {"over", "cut"}) {
    outcome = run_command({"train", "--resume", path(name), "--epochs", "15"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    expect_same_run("longer", name);
  }
}

TEST_F(Checkpoint, NewOptionsOfAResumedRunOutliveItsDeathBeforeASave) {
  ASSERT_EQ(run_command(arguments("run", 4, {"--checkpoint-every", "4"})).code, 0);
  const fs::path run_json = folder_ / "run" / "run.json";
  const auto resumed = [&] { return read_json(run_json).contains("resumed_after_epochs"); };
  const std::vector<std::string> resume{"train", "--resume", path("run")};
  auto words = resume;
  // Messages take so long that the run dies before it saves.
  words.insert(words.end(), {"--epochs", "6", "--verify", "2", "--link-latency-us", "2e5"});
  auto outcome = run_command(words, [&](int child) {
    EXPECT_TRUE(test::wait_until(resumed, 60));
    ::kill(child, SIGKILL);
  });
  ASSERT_EQ(outcome.code, 128 + SIGKILL) << outcome.err;
  ASSERT_EQ(newest_checkpoint(folder_ / "run" / "checkpoints"), saved("run", 4));
  words = resume;
  words.insert(words.end(), {"--link-latency-us", "0"});
  outcome = run_command(words);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(read_lines(folder_ / "run" / "metrics.jsonl").size(), 6U);
  EXPECT_EQ(read_json(run_json).at("options").at("verify"), 2);

  // Of a checkpoint from which the run was not last resumed, its own options count.
  auto manifest = read_json(run_json);
  manifest.at("resumed_after_epochs") = 5;
  test::write_text(run_json, manifest.dump());
  outcome = run_command({"train", "--resume", saved("run", 4).string()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("the run has had its 4 epochs"));
}

TEST_F(Checkpoint, AdviceCanBeFollowed) {
  const std::vector<std::string> more{"--schedule",         "cosine", "--summary", path("s.json"),
                                      "--checkpoint-every", "1"};
  const auto stopped = run_command(arguments("run", 1000000, more), [&](int child) {
    EXPECT_TRUE(test::wait_until(
        [&] { return !read_text(folder_ / "run" / "metrics.jsonl").empty(); }, 60));
    ::kill(child, SIGTERM);
  });
  EXPECT_THAT(stopped.err,
              HasSubstr("train --resume " + path("run") + " --summary " + path("s.json") + "\"\n"));
  ASSERT_EQ(run_command(arguments("done", 2, more)).code, 0);
  EXPECT_THAT(run_command({"train", "--resume", path("done")}).err,
              HasSubstr("the run has had its 2 epochs; its learning rate has ended too\n"));
}

TEST_F(Checkpoint, ARunGoesOnFromAnotherFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  test::write_text(folder_ / "owners", [] {
    std::string text;
    for (int v = 0; v < 200; ++v) text += v < 100 ? "0\n" : "1\n";
    return text;
  }());
  data_ = "ring";
  ASSERT_EQ(run_command(arguments("start", 1)).code, 0);
  ASSERT_EQ(run_command(arguments("run", 4,
                                  {"--checkpoint-every", "2", "--partitioner", "file:owners",
                                   "--init-from", "start"}))
                .code,
            0);
  fs::copy(saved("run", 2), folder_ / "first", fs::copy_options::recursive);
  fs::create_directory(folder_ / "elsewhere");
  fs::current_path(folder_ / "elsewhere");
  auto outcome = run_command({"train", "--resume", path("run"), "--epochs", "6"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  outcome = run_command({"train", "--resume", "../run", "--epochs", "8"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(run_command({"eval", "--checkpoint", path("run")}).code, 0);
  EXPECT_EQ(read_json(folder_ / "run" / "run.json").at("options").at("init-from"), path("start"));
  // run.json is of a start in this folder now, and the first checkpoint of one in the other.
  fs::rename(folder_ / "first", saved("run", 2));
  outcome = run_command(
      {"train", "--resume", saved("run", 2).string(), "--epochs", "3", "--out", path("again")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  fs::remove_all(saved("run", 2));

  fs::rename(folder_ / "ring", folder_ / "moved");
  outcome = run_command({"train", "--resume", path("run"), "--epochs", "9"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("the data of the run, " + path("ring") + ", does not exist"));
  outcome = run_command({"train", "--resume", path("run"), "--data", "../moved", "--epochs", "9"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  fs::rename(folder_ / "moved", folder_ / "far");
  outcome = run_command({"train", "--resume", path("run"), "--epochs", "10"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("the data of the run, " + path("moved") + ", does not"));
  fs::current_path("/");
  outcome = run_command({"train", "--resume", path("run"), "--epochs", "10"});
  EXPECT_THAT(outcome.err, HasSubstr("neither " + path("moved")));
  fs::current_path(before);
}

TEST_F(Checkpoint, LostOrTornLinesOfMetricsAreWrittenAgain) {
  ASSERT_EQ(run_command(arguments("whole", 9)).code, 0);
  ASSERT_EQ(run_command(arguments("cut", 6, {"--checkpoint-every", "3"})).code, 0);
  const std::string text = read_text(folder_ / "cut" / "metrics.jsonl");
  test::write_text(folder_ / "cut" / "metrics.jsonl", text.substr(0, text.size() / 2));
  const auto outcome = run_command({"train", "--resume", path("cut"), "--epochs", "9"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  expect_same_run("whole", "cut");
}

TEST_F(Checkpoint, SignalsSaveAndTheRunIsTheSame) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const std::string run = "stopped-" + std::to_string(signal);
    const auto stopped = run_command(arguments(run, 1000000), [&, s = signal](int child) {
      EXPECT_TRUE(test::wait_until(
          [&] { return read_lines(folder_ / run / "metrics.jsonl").size() >= 2; }, 60));
      ::kill(child, s);
      if (s == SIGINT) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ::kill(child, s);  // As `timeout` does: one request.
    });
    ASSERT_EQ(stopped.code, 128 + signal) << stopped.err;
    EXPECT_TRUE(fs::exists(folder_ / run / "best.safetensors"));
    const auto epochs = static_cast<int>(read_lines(folder_ / run / "metrics.jsonl").size());
    ASSERT_TRUE(fs::exists(saved(run, epochs)));
    EXPECT_THAT(stopped.err, HasSubstr("after " + std::to_string(epochs) +
                                       " epochs: continue with \"heliograph train --resume " +
                                       path(run) + "\"\n"));
    EXPECT_EQ(read_json(folder_ / run / "run.json").at("status"), "interrupted");
    const std::string end = std::to_string(epochs + 5);
    const auto resumed = run_command({"train", "--resume", path(run), "--epochs", end});
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_THAT(resumed.err, HasSubstr("continuing after " + std::to_string(epochs) +
                                       " epochs, from " + saved(run, epochs).string() + "\n"));
    EXPECT_TRUE(fs::exists(saved(run, epochs + 5)));  // Although --checkpoint-every is 0.
    ASSERT_EQ(run_command(arguments("whole-" + end, epochs + 5, {"--overwrite"})).code, 0);
    expect_same_run("whole-" + end, run);
  }
}

TEST_F(Checkpoint, UserSignalSavesAndTheRunGoesOn) {
  const auto outcome = run_command(arguments("run", 1000000), [&](int child) {
    const fs::path folder = folder_ / "run" / "checkpoints";
    EXPECT_TRUE(test::wait_until(
        [&] { return !read_text(folder_ / "run" / "metrics.jsonl").empty(); }, 60));
    ::kill(child, SIGUSR1);
    EXPECT_TRUE(test::wait_until([&] { return !newest_checkpoint(folder).empty(); }, 60));
    const std::string lines = read_text(folder_ / "run" / "metrics.jsonl");
    EXPECT_TRUE(test::wait_until(
        [&] { return read_text(folder_ / "run" / "metrics.jsonl").size() > lines.size(); }, 60));
    ::kill(child, SIGTERM);
  });
  EXPECT_EQ(outcome.code, 143) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("heliograph: saved the checkpoint after "));
  EXPECT_EQ(read_lines(folder_ / "run" / "metrics.jsonl").size(),
            static_cast<std::size_t>(
                read_checkpoint(newest_checkpoint(folder_ / "run" / "checkpoints")).epochs));
}

TEST_F(Checkpoint, ASecondSignalEndsAtOnce) {
  // An epoch takes three seconds, longer than the grace period of a run that cannot be saved.
  const auto outcome =
      run_command(arguments("run", 1000, {"--link-latency-us", "700000"}), [&](int child) {
        EXPECT_TRUE(test::wait_until(
            [&] { return !read_text(folder_ / "run" / "metrics.jsonl").empty(); }, 60));
        ::kill(child, SIGTERM);
        std::this_thread::sleep_for(std::chrono::milliseconds(1100));
        const std::string state = read_text("/proc/" + std::to_string(child) + "/stat");
        EXPECT_NE(state.substr(state.rfind(')') + 2, 1), "Z") << "ended by force";
        ::kill(child, SIGTERM);
      });
  EXPECT_EQ(outcome.code, 143) << outcome.err;
  // A checkpoint would have been saved at the end of the epoch.
  EXPECT_TRUE(newest_checkpoint(folder_ / "run" / "checkpoints").empty());
}

TEST_F(Checkpoint, ASecondSignalAfterTheResultsNamesTheCheckpointToo) {
  const fs::path pipe = folder_ / "summary";  // The run waits for a reader that never comes.
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const fs::path run = folder_ / "run";
  const auto outcome =
      run_command(arguments("run", 100000, {"--summary", pipe.string()}), [&](int child) {
        const auto holds = [](const fs::path& file, const char* text) {
          return test::wait_until([&] { return read_text(file).find(text) != std::string::npos; },
                                  60);
        };
        EXPECT_TRUE(holds(run / "metrics.jsonl", "\n"));
        ::kill(child, SIGINT);
        EXPECT_TRUE(holds(run / "run.json", "\"interrupted\""));
        ::kill(child, SIGINT);
      });
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("at once; the newest checkpoint is that after"));
}

TEST_F(Checkpoint, ASecondSignalAfterTheLastEpochDoesNotAdviseToStartAgain) {
  const fs::path pipe = folder_ / "summary";  // The run waits for a reader that never comes.
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto outcome =
      run_command(arguments("run", 5, {"--summary", pipe.string()}), [&](int child) {
        EXPECT_TRUE(test::wait_until(
            [&] {
              const std::string run = read_text(folder_ / "run" / "run.json");
              return run.find("\"completed\"") != std::string::npos;
            },
            60));
        ::kill(child, SIGINT);
        ::kill(child, SIGTERM);
      });
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("SIGINT at once; run.json says already how the run ended\n"));
  EXPECT_EQ(test::read_json(folder_ / "run" / "run.json").at("status"), "completed");
}

TEST_F(Checkpoint, RefusalsNameWhatIsWrong) {
  ASSERT_EQ(run_command(arguments("run", 4, {"--checkpoint-every", "2"})).code, 0);
  const auto refused = [&](const std::vector<std::string>& words, int code, const char* part) {
    const auto outcome = run_command(words);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(part));
  };
  const std::string before = read_text(folder_ / "run" / "metrics.jsonl");
  refused({"train", "--resume", path("run"), "--bits", "2"}, 7, "--bits-forward is 2");
  refused({"train", "--resume", path("run"), "--overwrite"}, 2, "--overwrite");
  refused({"train", "--resume", path("nothing")}, 3, "no such directory");
  refused({"train", "--resume", path("run"), "--epochs", "3"}, 7, "--epochs is 3");
  refused({"train", "--data", data_, "--checkpoint-every", "3"}, 2, "--out");
  refused({"train", "--data", data_, "--checkpoint-every", "-1", "--out", path("x")}, 2,
          "--checkpoint-every");
  refused(arguments("run", 4), 2,
          "already holds a run (best.safetensors); continue it with --resume, choose");
  // A run that was ended in its first save.
  fs::create_directories(folder_ / "cut" / "checkpoints" / ".epoch-000002.partial");
  refused({"train", "--resume", path("cut")}, 3, "the run has no checkpoint, so it cannot go on");
  test::write_text(folder_ / "cut" / "metrics.jsonl", "{}\n");
  refused(arguments("cut", 4), 2, "already holds a run (metrics.jsonl); choose another directory");
  test::write_text(folder_ / "cut" / "metrics.jsonl", "");
  EXPECT_EQ(run_command(arguments("cut", 4)).code, 0);
  EXPECT_FALSE(fs::exists(folder_ / "cut" / "checkpoints" / ".epoch-000002.partial"));
  std::string manifest = read_text(saved("run", 4) / "manifest.json");
  manifest[20] = static_cast<char>(manifest[20] ^ 1);
  test::write_text(saved("run", 4) / "manifest.json", manifest);
  refused({"train", "--resume", path("run")}, 3, "manifest.json: does not match its field xxh64");
  refused({"train", "--resume", path("run")}, 3, saved("run", 2).c_str());
  refused({"eval", "--checkpoint", saved("run", 4).string()}, 3, saved("run", 2).c_str());
  EXPECT_EQ(read_text(folder_ / "run" / "metrics.jsonl"), before);

  // The run resumes from the checkpoint that the message names, and replaces the damaged one.
  const auto outcome = run_command({"train", "--resume", saved("run", 2).string()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NO_THROW(verify_checkpoint(saved("run", 4)));
  ASSERT_EQ(run_command(arguments("run", 2, {"--overwrite"})).code, 0);
  EXPECT_FALSE(fs::exists(folder_ / "run" / "checkpoints"));
}

TEST_F(Checkpoint, FlagsMeetTheOptionsOfTheResumedRun) {
  const std::string owners = path("owners");
  const std::vector<std::string> drawn{"--split", "random:50/25/25"};
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  ASSERT_EQ(run_command(with({"partition", "--data", data_, "--parts", "3", "--balance-train",
                              "--owners", owners},
                             drawn))
                .code,
            0);
  ASSERT_EQ(run_command(arguments("run", 2,
                                  with(drawn, {"--parts", "3", "--partitioner", "file:" + owners,
                                               "--checkpoint-every", "2"})))
                .code,
            0);
  const std::vector<std::string> resume{"train", "--resume", path("run"), "--epochs", "4"};
  auto outcome = run_command(with(resume, {"--split-seed", "3"}));
  EXPECT_EQ(outcome.code, 7);
  EXPECT_THAT(outcome.err, HasSubstr("--split-seed is 3, but the checkpoint was made with 0"));
  // The partition is what counts, not the options that cut it.
  outcome = run_command(with(resume, {"--balance-train", "--partitioner", "metis"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(Checkpoint, EvalScoresAtAnyNumberOfRanks) {
  ASSERT_EQ(run_command(arguments("run", 6, {"--checkpoint-every", "6"})).code, 0);
  const auto last = read_lines(folder_ / "run" / "metrics.jsonl").back();
  for (const char* parts : {"1", "2", "5"}) {
    const std::string out = path(std::string("eval-") + parts);
    const auto outcome = run_command({"eval", "--checkpoint", saved("run", 6).string(), "--data",
                                      data_, "--parts", parts, "--out", out});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("test accuracy"));
    const auto scores = read_json(out + "/eval.json");
    for (const char* key : {"train_metric", "val_metric", "test_metric"}) {
      EXPECT_EQ(scores.at(key), last.at(key)) << key;
    }
    EXPECT_EQ(scores.at("epochs"), 6);
  }
  EXPECT_EQ(run_command({"eval", "--checkpoint", path("run"), "--out", path("eval-1")}).code, 2);
  EXPECT_EQ(run_command({"eval"}).code, 2);
  // Weights of another width do not fit the data set.
  Dataset wide = test::ring(60);
  wide.features.cols = 1;
  wide.features.dense = std::vector<float>(60, 1.0F);
  save_native(wide, folder_ / "wide");
  const auto other = run_command({"eval", "--checkpoint", path("run"), "--data", path("wide")});
  EXPECT_EQ(other.code, 7) << other.err;
  EXPECT_THAT(other.err, HasSubstr("reads 2 feature columns"));
}

TEST_F(Checkpoint, EvalOfARunGivesWhatItReported) {
  const auto trained =
      run_command(arguments("run", 9,
                            {"--normalize", "standard", "--lr", "0.3", "--save-logits",
                             "--save-embeddings", "--split", "random:40/30/30"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_FALSE(fs::exists(folder_ / "run" / "checkpoints"));
  const auto result = read_json(folder_ / "run" / "run.json").at("result");
  // Data, split, metric and partition are the run's.
  const auto outcome =
      run_command({"eval", "--checkpoint", path("run"), "--out", path("eval"), "--save-logits",
                   path("l.npy"), "--save-embeddings", path("e.npy")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto scores = read_json(folder_ / "eval" / "eval.json");
  EXPECT_EQ(scores.at("epochs").get<int>(), result.at("best_epoch").get<int>() + 1);
  EXPECT_EQ(scores.at("val_metric"), result.at("val_metric"));
  EXPECT_EQ(scores.at("test_metric"), result.at("test_metric"));
  for (const auto& [a, b] : {std::pair{"predictions.npy", "eval/predictions.npy"},
                             {"logits.npy", "l.npy"},
                             {"embeddings.npy", "e.npy"}}) {
    EXPECT_EQ(read_text(folder_ / "run" / a), read_text(folder_ / b)) << a;
  }
  EXPECT_EQ(read_npy(folder_ / "l.npy").shape, (std::vector<std::int64_t>{200, 2}));
  EXPECT_EQ(read_npy(folder_ / "e.npy").shape, (std::vector<std::int64_t>{200, 8}));
  const auto again = run_command(
      {"eval", "--checkpoint", path("run/best.safetensors"), "--save-logits", path("l.npy")});
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("--overwrite"));

  const auto tuned = run_command(train_arguments(
      data_, 2, {"--init-from", path("run"), "--lr", "1e-6", "--normalize", "standard"}));
  EXPECT_EQ(tuned.code, 0) << tuned.err;
  const auto nowhere = run_command(train_arguments(data_, 2, {"--save-logits"}));
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("--out"));
}

TEST_F(Checkpoint, AResumeWithoutACheckpointOffersTheBestWeights) {
  ASSERT_EQ(run_command(arguments("a run", 2)).code, 0);
  const auto refused = run_command({"train", "--resume", path("a run")});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("the run has no checkpoint; its best weights can begin a new "
                                     "run: --init-from '" +
                                     path("a run") + "'\n"));
}

}  // namespace
}  // namespace heliograph
