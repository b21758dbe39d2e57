#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "cli/files.hpp"
#include "cli/process.hpp"
#include "cli/sample.hpp"
#include "graph/io/npy.hpp"
#include "support/files.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using test::read_json;
using test::read_lines;
using test::read_text;
using test::run_command;
using test::TemporaryDirectory;
using test::train_arguments;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr NodeId nodes = 200;

class Train : public test::CommandTest {
 protected:
  Train() : CommandTest(nodes) {}
};

TEST_F(Train, SaysWhichExchangeMovesTheGradients) {
  const auto outcome = run_command(
      train_arguments(data_, 4,
                      {"--bits-forward", "1", "--bits-backward", "16", "--layers", "3",
                       "--partitioner", "random", "--verify", "2", "--out", path("run")}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::vector<std::string> verified;
  std::int64_t bytes = 0;
  for (const auto& epoch : read_lines(folder_ / "run" / "metrics.jsonl")) {
    if (!epoch.contains("verification")) continue;
    verified.push_back(epoch.at("epoch").dump());
    const auto& verification = epoch.at("verification");
    bytes += verification.at("bytes").get<std::int64_t>();
    EXPECT_EQ(verification.at("parts").size(), 4U);
    EXPECT_EQ(verification.at("parts")[0].at("bits_alone"),
              verification.at("parts")[0].at("gradient").at("relative"));
    EXPECT_EQ(verification.at("parameters").size(),
              verification.at("whole").at("gradients").size());
  }
  EXPECT_EQ(verified, (std::vector<std::string>{"1", "3"}));
  const auto mean = read_json(folder_ / "run" / "run.json").at("result").at("verification");
  EXPECT_EQ(mean.at("epochs"), 2);
  EXPECT_EQ(mean.at("bytes"), bytes);
  const auto& largest = mean.at("largest");
  EXPECT_THAT(largest.at("site"), ::testing::EndsWith("forward"));
  EXPECT_THAT(outcome.out, HasSubstr("Verified in 2 epochs"));
  EXPECT_THAT(outcome.out,
              HasSubstr(fmt::format("of the exchanges' squared errors, {:.3g} % is {}, bits;",
                                    100 * largest.at("share").get<double>(),
                                    largest.at("site").get<std::string>())));
  EXPECT_THAT(run_command(train_arguments(data_, 2, {"--verify", "2"})).out,
              HasSubstr("every halo row was exact"));
}

TEST_F(Train, SaysWhatTheBitsPolicyHasComeTo) {
  const auto outcome = run_command(
      train_arguments(data_, 30,
                      {"--bits", "1", "--bits-policy", "trend", "--staleness", "1", "--dropout",
                       "0", "--lr", "0.001", "--partitioner", "random", "--out", path("run")}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto changes = read_json(folder_ / "run" / "run.json").at("result").at("trend");
  ASSERT_FALSE(changes.empty());
  const auto& last = changes.back();
  EXPECT_THAT(outcome.out, ContainsRegex("bits policy +" + last.at("bits_forward").dump() +
                                         " bits? and staleness " + last.at("staleness").dump() +
                                         " since epoch " + last.at("epoch").dump() + "\n"));
}

TEST_F(Train, ReportsRowsGradientsAndBothTogether) {
  const auto outcome = run_command(train_arguments(
      data_, 2, {"--bits", "1", "--partitioner", "random", "--summary", path("s.json")}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto summary = read_json(folder_ / "s.json");
  const auto& bytes = summary.at("bytes_per_epoch");
  const std::int64_t rows =
      bytes.at("halo_forward").get<std::int64_t>() + bytes.at("halo_backward").get<std::int64_t>();
  const auto gradients = bytes.at("allreduce").get<std::int64_t>();
  const auto exact = summary.at("fp32_bytes_per_epoch").get<double>();
  const auto times = [](double before, std::int64_t after) {
    return fmt::format("{:.1f}x less than with rows in fp32", before / static_cast<double>(after));
  };
  EXPECT_GT(gradients, 0);
  EXPECT_THAT(outcome.out,
              HasSubstr(fmt::format("node rows sent  {:.2f} kB an epoch, {}",
                                    1e-3 * static_cast<double>(rows), times(exact, rows))));
  EXPECT_THAT(outcome.out, HasSubstr("gradients sent  "));
  EXPECT_THAT(outcome.out,
              HasSubstr(times(exact + static_cast<double>(gradients), rows + gradients)));
  const auto fp32 = run_command(train_arguments(data_, 2));
  EXPECT_THAT(fp32.out, HasSubstr(" B an epoch\n  gradients sent"));
  EXPECT_THAT(fp32.out, Not(HasSubstr("x less")));
  EXPECT_THAT(fp32.out, Not(HasSubstr("busiest link")));
  const auto shaped =
      run_command(train_arguments(data_, 2, {"--link-gbps", "0.001", "--summary", path("l.json")}));
  const auto link = read_json(folder_ / "l.json");
  EXPECT_EQ(link.at("link_seconds_per_epoch").get<double>(),
            8e-6 * link.at("link_bytes_per_epoch").get<double>());
  EXPECT_THAT(shaped.out,
              ContainsRegex("busiest link +[0-9.]+ k?B an epoch, [0-9.]+ ms at 0.001 Gbit/s\n"));
  // Of two nodes' rows, packed ones save nothing beside the gradients.
  const auto few = run_command(train_arguments(data_, 2, {"--bits", "1", "--hidden", "64"}));
  EXPECT_THAT(few.out, HasSubstr(" kB an epoch\n  peak memory"));
}

TEST_F(Train, WritesAndScoresPredictedNumbers) {
  Dataset numbers = test::ring(nodes);
  std::vector<float> values;
  for (const std::int32_t c : numbers.labels.class_of) {
    values.push_back(300 + 50 * static_cast<float>(c));
  }
  numbers.labels = Labels();
  numbers.labels.task = Task::regression;
  numbers.labels.classes = 1;
  numbers.labels.values = values;
  save_native(numbers, folder_ / "numbers");
  const auto trained =
      run_command(train_arguments(path("numbers"), 12, {"--out", path("run"), "--metric", "rmse"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("test rmse"));
  EXPECT_EQ(read_json(folder_ / "run" / "run.json").at("dataset").at("task"), "regression");
  const auto scored = run_command({"eval", "--checkpoint", path("run"), "--out", path("eval"),
                                   "--save-logits", path("logits.npy")});
  ASSERT_EQ(scored.code, 0) << scored.err;
  EXPECT_EQ(read_npy(folder_ / "logits.npy").shape, (std::vector<std::int64_t>{nodes, 1}));
  EXPECT_EQ(read_text(folder_ / "run" / "predictions.npy"),
            read_text(folder_ / "eval" / "predictions.npy"));
  const NpyArray predictions = read_npy(folder_ / "run" / "predictions.npy");
  EXPECT_EQ(predictions.dtype, "<f4");
  EXPECT_EQ(predictions.shape, (std::vector<std::int64_t>{nodes}));
  double squares = 0;
  const Array<float> predicted = to_float32(predictions);
  for (std::size_t v = 3; v < predicted.size(); v += 4) {  // test nodes
    squares += std::pow(double{predicted[v]} - double{values[v]}, 2);
  }
  EXPECT_NEAR(read_json(folder_ / "eval" / "eval.json").at("test_metric").get<double>(),
              std::sqrt(squares / (nodes / 4)), 1e-9);
}

TEST_F(Train, LeavesAWholeRun) {
  const auto outcome =
      run_command(train_arguments(data_, 12,
                                  {"--out", path("run"), "--summary", path("s.json"), "--bits", "1",
                                   "--eval-every", "3", "--metric", "accuracy"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("test accuracy"));

  const auto lines = read_lines(folder_ / "run" / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 12U);
  for (std::size_t e = 0; e < lines.size(); ++e) {
    EXPECT_EQ(lines[e].at("epoch"), e);
    EXPECT_TRUE(lines[e].at("loss").is_number());
    EXPECT_GT(lines[e].at("bytes"), 0);
    EXPECT_EQ(lines[e].at("val_metric").is_null(), (e + 1) % 3 != 0) << e;
    EXPECT_EQ(lines[e].at("lr").dump(), "0.01");
    for (const char* key : {"test_metric", "seconds", "lag"}) {
      EXPECT_TRUE(lines[e].contains(key)) << key;
    }
  }

  const auto manifest = read_json(folder_ / "run" / "run.json");
  EXPECT_EQ(manifest.at("status"), "completed");
  EXPECT_EQ(manifest.at("dataset").at("nodes"), nodes);
  EXPECT_EQ(manifest.at("partition_hash").get<std::string>().size(), 16U);
  EXPECT_FALSE(manifest.at("machine").at("cpu").get<std::string>().empty());

  const auto summary = read_json(path("s.json"));
  EXPECT_EQ(summary, manifest.at("result"));
  EXPECT_EQ(summary.at("dropped_epochs"), 5);
  EXPECT_EQ(summary.at("ranks"), 2);
  EXPECT_EQ(summary.at("bits"), 1);
  EXPECT_EQ(lines[summary.at("best_epoch").get<std::size_t>()].at("val_metric"),
            summary.at("val_metric"));

  const NpyArray predictions = read_npy(folder_ / "run" / "predictions.npy");
  EXPECT_EQ(predictions.shape, (std::vector<std::int64_t>{nodes}));
  // The reported score is that of the predictions, in the user's order.
  const Dataset dataset = test::ring(nodes);
  const auto classes = to_int32(predictions);
  double right = 0, count = 0;
  for (std::size_t v = 0; v < classes.size(); ++v) {
    if (dataset.splits[0].role[v] != Role::test) continue;
    count += 1;
    right += classes[v] == dataset.labels.class_of[v] ? 1 : 0;
  }
  EXPECT_NEAR(summary.at("test_metric").get<double>(), right / count, 1e-12);
}

TEST_F(Train, RepeatsARunFromItsManifest) {
  ASSERT_EQ(
      run_command(
          train_arguments(data_, 5, {"--out", path("a"), "--bits", "1", "--quiet", "--seed", "7"}))
          .code,
      0);
  const auto again =
      run_command({"train", "--config", path("a") + "/run.json", "--out", path("b")});
  ASSERT_EQ(again.code, 0) << again.err;
  const auto first = read_lines(folder_ / "a" / "metrics.jsonl");
  const auto second = read_lines(folder_ / "b" / "metrics.jsonl");
  ASSERT_EQ(first.size(), second.size());
  for (std::size_t e = 0; e < first.size(); ++e) {
    EXPECT_EQ(first[e].at("loss"), second[e].at("loss"));
  }
  EXPECT_EQ(read_json(folder_ / "a" / "run.json").at("options"),
            read_json(folder_ / "b" / "run.json").at("options"));
}

TEST_F(Train, AllExchangesAreLateInRunsOfEarlierVersions) {
  ASSERT_EQ(
      run_command(train_arguments(data_, 3, {"--out", path("a"), "--staleness", "1", "--quiet"}))
          .code,
      0);
  auto manifest = read_json(folder_ / "a" / "run.json");
  EXPECT_EQ(manifest.at("options").at("stale-sites"), "lowest-backward");
  manifest.at("options").erase("stale-sites");
  test::write_text(folder_ / "earlier.json", manifest.dump());
  const auto again =
      run_command({"train", "--config", path("earlier.json"), "--out", path("b"), "--quiet"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(read_json(folder_ / "b" / "run.json").at("options").at("stale-sites"), "all");
}

TEST_F(Train, RefusesADirectoryThatHoldsARun) {
  const auto words = train_arguments(data_, 2, {"--out", path("run"), "--quiet"});
  ASSERT_EQ(run_command(words).code, 0);
  const std::string before = read_text(folder_ / "run" / "run.json");
  const auto refused = run_command(words);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--overwrite"));
  EXPECT_EQ(read_text(folder_ / "run" / "run.json"), before);
  auto replacing = words;
  replacing.push_back("--overwrite");
  EXPECT_EQ(run_command(replacing).code, 0);
}

/// The files below `folder` and what they hold.
std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) found[entry.path().string()] = read_text(entry.path());
  }
  return found;
}

TEST_F(Train, FailsBeforeItTouchesAnOldRun) {
  const auto words = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--out", path("run"), "--quiet", "--checkpoint-every", "1"});
    return train_arguments(data_, 2, more);
  };
  ASSERT_EQ(run_command(words({})).code, 0);
  const auto before = contents(folder_ / "run");
  const std::tuple<const char*, std::string, int> cases[] = {{"--data", path("missing"), 3},
                                                             {"--parts", "500", 2},
                                                             {"--split", "7", 2},
                                                             {"--memory-limit-mib", "1", 4}};
  for (const auto& [flag, value, code] : cases) {
    const auto failed = run_command(words({"--hidden", "3000", "--overwrite", flag, value}));
    EXPECT_EQ(failed.code, code) << failed.err;
    EXPECT_EQ(contents(folder_ / "run"), before) << flag;
  }
  // The first epoch is under way. With the shorter messages it would end within 0.7 seconds.
  const std::tuple<int, const char*, int> signals[] = {
      {SIGKILL, "1e6", 500}, {SIGTERM, "1e6", 500}, {SIGTERM, "2e4", 100}};
  for (const auto& [signal, latency, milliseconds] : signals) {
    const auto ended = run_command(words({"--overwrite", "--link-latency-us", latency}),
                                   [&, s = signal, wait = milliseconds](int child) {
                                     std::this_thread::sleep_for(std::chrono::milliseconds(wait));
                                     ::kill(child, s);
                                   });
    EXPECT_EQ(ended.code, 128 + signal) << ended.err;
    EXPECT_EQ(contents(folder_ / "run"), before) << latency;
  }
}

TEST_F(Train, ReplacesAStartThatFailed) {
  const auto words = [&](const std::string& split) {
    return train_arguments(data_, 1, {"--out", path("run"), "--quiet", "--split", split});
  };
  EXPECT_EQ(run_command(words("7")).code, 2);
  EXPECT_EQ(read_json(folder_ / "run" / "run.json").at("status"), "failed");
  EXPECT_EQ(run_command(words("0")).code, 0);
  EXPECT_EQ(run_command(words("0")).code, 2);
}

// The checkpoint of an only epoch that is evaluated because it is the last is saved before its
// evaluation, and so before its line is written.
TEST_F(Train, KeepsTheCheckpointOfItsOnlyEpochWhereItReplacesARun) {
  for (int i = 0; i < 2; ++i) {
    const auto outcome =
        run_command(train_arguments(data_, 1,
                                    {"--out", path("run"), "--overwrite", "--eval-every", "2",
                                     "--checkpoint-every", "1", "--seed", std::to_string(i)}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_TRUE(fs::exists(folder_ / "run" / "checkpoints" / "epoch-000001" / "manifest.json"));
    EXPECT_EQ(read_lines(folder_ / "run" / "metrics.jsonl").size(), 1U);
  }
}

TEST_F(Train, RefusesWhatDoesNotFitIntoMemory) {
  const auto refused = run_command(
      train_arguments(data_, 2, {"--hidden", "3000", "--memory-limit-mib", "9", "--quiet"}));
  EXPECT_EQ(refused.code, 4);
  EXPECT_THAT(refused.err, HasSubstr("training needs at least"));
  EXPECT_THAT(refused.err, HasSubstr("--memory-limit-mib allows 9.0 MiB: lower --hidden"));
}

TEST_F(Train, PrintsFewWholeLinesWithoutATerminal) {
  const auto outcome = run_command(train_arguments(data_, 30));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err.find_first_of("\r\x1b"), std::string::npos);
  EXPECT_THAT(outcome.err, HasSubstr("epoch 30/30: loss "));
  EXPECT_THAT(outcome.err, Not(HasSubstr("epoch 1/30")));
}

TEST_F(Train, QuietPrintsNothing) {
  const auto outcome = run_command(train_arguments(data_, 3, {"--quiet"}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out, "");
}

TEST_F(Train, DrawsOneLiveLineOnATerminal) {
  const auto outcome = test::run_on_terminal(train_arguments(data_, 30), 100);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("\r\u2501"));
  EXPECT_THAT(outcome.err, HasSubstr("30/30  loss "));
  ASSERT_FALSE(outcome.err.empty());
  EXPECT_EQ(outcome.err.back(), '\n');
}

TEST_F(Train, FitsANarrowTerminal) {
  const auto outcome =
      test::run_on_terminal(train_arguments(data_, 3, {"--log-level", "error"}), 30);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  // Splits the text at returns, newlines and the code that clears the rest of a line.
  std::string text = outcome.err;
  for (std::size_t at = 0; (at = text.find("\x1b[K")) != std::string::npos;) {
    text.replace(at, 3, 1, '\n');
  }
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find_first_of("\r\n", begin), text.size());
    EXPECT_LT(end - begin, 30U) << text.substr(begin, end - begin);
    begin = end + 1;
  }
}

TEST_F(Train, CountsOfOneAreSingular) {
  const auto outcome = run_command({"train", "--data", data_, "--layers", "1", "--epochs", "1",
                                    "--parts", "2", "--bits-forward", "1", "--bits-backward", "8",
                                    "--checkpoint-every", "1", "--out", path("run")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("1 layer of 128, 1 epoch, 2 ranks"));
  EXPECT_THAT(outcome.err, HasSubstr("1 bit forward, 8 backward"));
  const auto again = run_command({"train", "--resume", path("run")});
  EXPECT_THAT(again.err, HasSubstr("has had its 1 epoch; "));
}

TEST_F(Train, MakesTheFolderOfOutForItsSummaryToo) {
  const auto outcome =
      run_command(train_arguments(data_, 1, {"--out", path("new/a"), "--summary", path("new/s")}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(read_json(folder_ / "new" / "s").contains("test_metric"));
  const auto elsewhere =
      run_command(train_arguments(data_, 1, {"--out", path("b"), "--summary", path("other/s")}));
  EXPECT_EQ(elsewhere.code, 2);
  EXPECT_THAT(elsewhere.err, HasSubstr("other is not a directory"));
}

TEST_F(Train, BalancesTrainingNodesOnDemand) {
  const auto outcome = run_command(train_arguments(data_, 1, {"--balance-train"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const auto refused = run_command(train_arguments(data_, 1, {"--balance-train", "--split", "4"}));
  EXPECT_EQ(refused.code, 2) << refused.err;
}

// A wait in which no message moves for longer than --timeout ends with an error that names the
// rank.
TEST_F(Train, ALostPeerIsExitFive) {
  // Messages that arrive too late, and that never arrive.
  for (const char* latency : {"300000", "1e12"}) {
    SCOPED_TRACE(latency);
    const auto outcome = run_command(train_arguments(
        data_, 3, {"--link-latency-us", latency, "--timeout", "0.05", "--out", path(latency)}));
    EXPECT_EQ(outcome.code, 5) << outcome.err;
    // On a busy machine a wait before the first epoch may be the one that takes too long.
    EXPECT_THAT(outcome.err,
                ContainsRegex("rank [01](, epoch 0.*)?: waited 0.05 s without progress for bytes"));
    EXPECT_EQ(read_json(folder_ / latency / "run.json").at("status"), "failed");
  }
}

TEST_F(Train, ANumericFailureIsExitSix) {
  const auto outcome = run_command(
      train_arguments(data_, 30, {"--norm", "none", "--lr", "1e30", "--out", path("run")}));
  EXPECT_EQ(outcome.code, 6) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("epoch"));
  EXPECT_EQ(read_json(folder_ / "run" / "run.json").at("error").at("exit_code"), 6);
}

}  // namespace
}  // namespace heliograph
