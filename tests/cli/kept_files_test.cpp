#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/files.hpp"
#include "cli/process.hpp"
#include "cli/sample.hpp"
#include "graph/io/npy.hpp"

// Files that the command must leave as they are: data, and what other runs have written.

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using test::read_json;
using test::read_lines;
using test::read_text;
using test::run_command;
using ::testing::HasSubstr;
using ::testing::Not;

class KeptFiles : public test::CommandTest {
 protected:
  std::vector<std::string> arguments(std::vector<std::string> more, int epochs = 2) const {
    more.insert(more.end(), {"--metric", "accuracy"});
    return test::train_arguments(data_, epochs, more);
  }
};

TEST_F(KeptFiles, ASummaryReplacesOnlyASummary) {
  train("run");
  test::write_text(folder_ / "notes.json", "{\"metric\": 1}");
  for (const char* name :
       {"ring/manifest.json", "ring/features.bin", "run/run.json", "run/metrics.jsonl",
        "run/best.safetensors", "run/predictions.npy", "notes.json"}) {
    const std::string before = read_text(path(name));
    refused(arguments({"--summary", path(name)}), 2,
            std::string(name).starts_with("ring/")
                ? "lies in a data set"
                : "exists and is not a summary of an earlier run");
    EXPECT_EQ(read_text(path(name)), before) << name;
  }
  for (const char* name : {"run/run.json", "run/logits.npy", "run/checkpoints/s.json"}) {
    if (!fs::exists(folder_ / "run/checkpoints")) fs::create_directory(folder_ / "run/checkpoints");
    refused(arguments({"--out", path("run"), "--overwrite", "--summary", path(name)}), 2,
            "is a file of the run in --out");
  }
  const auto twice = arguments({"--summary", path("s.json"), "--quiet"});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(run_command(twice).code, 0);
  EXPECT_EQ(read_json(path("s.json")).at("epochs"), 2);

  // Import reads no summaries, so one may be replaced in the folder of the data.
  const fs::path list = folder_ / "list";
  fs::create_directory(list);
  test::write_text(list / "edges.csv", "0,1\n1,2\n2,3\n3,0\n");
  write_npy(list / "labels.npy", std::vector<std::int32_t>{0, 1, 0, 1}, 4, 1);
  write_npy(list / "features.npy", std::vector<float>(8, 1), 4, 2);
  for (int i = 0; i < 2; ++i) {
    const auto outcome =
        run_command({"train", "--data", list, "--index-base", "0", "--split", "random:50/25/25",
                     "--epochs", "1", "--quiet", "--summary", list / "s.json"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
}

TEST_F(KeptFiles, ResultsAreNotWrittenIntoData) {
  train("run", {"--checkpoint-every", "2"});
  const std::string shards = path("shards");
  ASSERT_EQ(run_command({"partition", "--data", data_, "--parts", "2", "--out", shards}).code, 0);
  fs::create_directory(folder_ / "list");
  test::write_text(folder_ / "list" / "edges.csv", "0,1\n");
  for (const std::string& data :
       {data_, shards, path("list"), path("run/checkpoints/epoch-000002")}) {
    refused(arguments({"--out", data}), 2, "holds a data set, shards or a checkpoint");
    refused(arguments({"--out", data, "--overwrite"}), 2, "holds a data set");
    refused({"eval", "--checkpoint", path("run"), "--out", data, "--overwrite"}, 2,
            "holds a data set");
  }
  for (const std::string& data : {data_, shards}) {
    EXPECT_EQ(run_command({"eval", "--checkpoint", path("run"), "--data", data}).code, 0);
  }
}

TEST_F(KeptFiles, ListsAndArraysReplaceOnlyTheirKind) {
  train("run");
  test::write_text(folder_ / "notes.txt", "two words");
  const auto eval = [&](const std::string& flag, const std::string& file) {
    return std::vector<std::string>{"eval", "--checkpoint", path("run"),
                                    flag,   path(file),     "--overwrite"};
  };
  const auto cut = [&](const std::string& file) {
    return std::vector<std::string>{"partition", "--data",   data_,      "--parts",
                                    "2",         "--owners", path(file), "--overwrite"};
  };
  for (const char* name : {"ring/manifest.json", "ring/new.npy"}) {
    refused(eval("--save-logits", name), 2, "lies in a data set");
    refused(cut(name), 2, "lies in a data set");
  }
  for (const char* name : {"run/best.safetensors", "run/metrics.jsonl", "notes.txt"}) {
    const std::string before = read_text(path(name));
    refused(eval("--save-embeddings", name), 2, "exists and is not an array of logits");
    refused(cut(name), 2, "exists and is not a list of owners");
    EXPECT_EQ(read_text(path(name)), before) << name;
  }
  const std::string predictions = read_text(path("run/predictions.npy"));
  refused(eval("--save-logits", "run/predictions.npy"), 2, "exists and is not an array of logits");
  refused(cut("run/predictions.npy"), 2, "has the name of a file of the run there");
  write_npy(folder_ / "features.npy", std::vector<float>(8, 1), 4, 2);
  refused(cut("features.npy"), 2, "exists and is not an array of owners");
  write_npy(folder_ / "labels.npy", std::vector<std::int32_t>(4, 1), 4, 1);
  refused(eval("--save-logits", "labels.npy"), 2, "exists and is not an array of logits");
  EXPECT_EQ(read_text(path("run/predictions.npy")), predictions);
  refused({"eval", "--checkpoint", path("run"), "--out", path("run")}, 2,
          "has the name of a file of the run there");

  // Export would take files that the run lacks for the run's.
  const char* const of_run = "has the name of a file of the run there";
  write_npy(folder_ / "elsewhere.npy", std::vector<float>(8, 1), 4, 2);
  fs::create_symlink(folder_ / "elsewhere.npy", folder_ / "run" / "logits.npy");
  refused(eval("--save-logits", "run/logits.npy"), 2, of_run);
  fs::remove(folder_ / "run" / "logits.npy");
  refused(eval("--save-logits", "run/logits.npy"), 2, of_run);
  refused(cut("run/embeddings.npy"), 2, of_run);
  train("unscored", {"--eval-every", "0", "--checkpoint-every", "2"});
  refused({"export", "--run", path("run"), "--what", "logits", "--to", path("unscored/logits.npy")},
          2, of_run);
  refused({"eval", "--checkpoint", path("unscored/checkpoints/epoch-000002"), "--out",
           path("unscored")},
          2, of_run);
  EXPECT_FALSE(fs::exists(folder_ / "unscored" / "predictions.npy"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(run_command(eval("--save-logits", "run/mine.npy")).code, 0);
    EXPECT_EQ(run_command(cut("run/owners")).code, 0);
  }
  refused(eval("--save-logits", "l.csv"), 2, "whose name ends in .npy");
  EXPECT_FALSE(fs::exists(path("l.csv")));
  auto twice = eval("--save-logits", "l.npy");
  twice.insert(twice.end(), {"--save-embeddings", path("run/../l.npy")});
  refused(twice, 2, "another result has the same file");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(run_command(eval("--save-logits", "l.npy")).code, 0);
    EXPECT_EQ(run_command(cut("owners")).code, 0);
  }

  // A file of the right kind that is an input.
  fs::create_directory(folder_ / "list");
  test::write_text(folder_ / "list" / "edges.csv", "0,1\n1,2\n2,3\n3,0\n");
  test::write_text(folder_ / "list" / "labels.txt", "0\n1\n0\n1\n");
  refused({"partition", "--data", path("list"), "--parts", "2", "--owners", path("list/labels.txt"),
           "--overwrite"},
          2, "lies in a data set");
}

TEST_F(KeptFiles, ArraysOfAnotherDataSetAreKept) {
  train("run");
  for (const auto& [data, graph] : {std::pair("list", "edges.csv"), std::pair("mm", "graph.mtx")}) {
    fs::create_directory(folder_ / data);
    test::write_text(folder_ / data / graph, "0,1\n");
    const std::string array = path(std::string(data) + "/features.npy");
    const std::string made = path(std::string(data) + "/new.npy");
    test::write_text(array, "\x93NUMPY");
    const auto eval = [&](const std::string& file) {
      return std::vector<std::string>{"eval",          "--checkpoint", path("run"),
                                      "--save-logits", file,           "--overwrite"};
    };
    refused(eval(array), 2, "lies in a data set: it is not replaced");
    EXPECT_EQ(read_text(array), "\x93NUMPY");
    EXPECT_EQ(run_command(eval(made)).code, 0) << "a new file beside data is in nobody's way";
  }
}

TEST_F(KeptFiles, AFileThatMayNotBeWrittenIsRefusedBeforeTheWork) {
  train("run");
  const std::string closed = path("closed");
  fs::create_directory(closed);
  fs::permissions(closed, fs::perms::owner_read | fs::perms::owner_exec);
  if (::access(closed.c_str(), W_OK) == 0) GTEST_SKIP() << "this user may write everywhere";
  const std::string file = closed + "/file";
  refused(arguments({"--summary", file}), 2, "cannot be written: Permission denied");
  refused({"eval", "--checkpoint", path("run"), "--save-logits", file}, 2, "cannot be written");
  refused({"partition", "--data", data_, "--parts", "2", "--owners", file}, 2, "cannot be written");
}

TEST_F(KeptFiles, EveryCommandReportsAFileSizeLimit) {
  train("run");
  const std::string data = test::save_ring(folder_ / "large", 9000);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{16 << 10, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::vector<std::string> commands[] = {
      {"import", "--data", data, "--out", path("copy")},
      {"generate", "--nodes", "9000", "--edges", "9000", "--out", path("made")},
      {"partition", "--data", data, "--parts", "2", "--owners", path("owners")},
      {"eval", "--checkpoint", path("run"), "--data", data, "--save-logits", path("l.npy")}};
  for (const auto& words : commands) refused(words, 4, "File too large");
  ::setrlimit(RLIMIT_FSIZE, &before);
}

TEST_F(KeptFiles, ImportRefusesItsTargetBeforeItReads) {
  refused({"import", "--data", path("missing"), "--out", data_}, 2, "ring exists already");
}

// Ctrl-C in the first epoch after a resume, which takes longer than the grace period of a run that
// has nothing to save.
TEST_F(KeptFiles, AnInterruptedResumeKeepsTheResults) {
  train("run", {"--checkpoint-every", "2"}, 2);
  const fs::path run = folder_ / "run";
  const auto stopped = run_command(
      {"train", "--resume", run.string(), "--epochs", "200", "--link-latency-us", "100000"},
      [&](int child) {
        EXPECT_TRUE(test::wait_until(
            [&] { return read_json(run / "run.json").at("status") == "running"; }, 60));
        ::kill(child, SIGINT);
      });
  EXPECT_EQ(stopped.code, 130);
  EXPECT_THAT(stopped.err, HasSubstr("after 3 epochs: continue with"));
  EXPECT_THAT(stopped.err, Not(HasSubstr("at once")));
  EXPECT_EQ(read_lines(run / "metrics.jsonl").size(), 3U);
  EXPECT_TRUE(fs::exists(run / "best.safetensors"));
  EXPECT_TRUE(fs::exists(run / "predictions.npy"));

  fs::remove(run / "best.safetensors");
  refused({"eval", "--checkpoint", run.string()}, 3,
          "when it ends; its newest checkpoint is " + path("run/checkpoints/epoch-000003"));
}

TEST_F(KeptFiles, ReadersNameARunJsonThatIsAPipe) {
  train("run", {"--checkpoint-every", "2"}, 2);
  const fs::path run = folder_ / "run", file = run / "run.json";
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0666), 0);
  const std::vector<std::vector<std::string>> readers = {
      {"train", "--resume", run.string()},
      {"train", "--resume", (run / "checkpoints" / "epoch-000002").string()},
      {"eval", "--checkpoint", run.string()},
      {"export", "--run", run.string(), "--what", "weights", "--to", path("w.npz")}};
  for (const auto& reader : readers) refused(reader, 3, file.string() + " is not a file");
  refused({"train", "--config", run.string()}, 2, file.string() + " cannot be read");
}

}  // namespace
}  // namespace heliograph
