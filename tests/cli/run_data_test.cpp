#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/files.hpp"
#include "cli/process.hpp"
#include "cli/sample.hpp"
#include "graph/io/npy.hpp"

// The data of a run, wherever and in whatever form they lie, and what is no data.

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using test::run_command;
using ::testing::HasSubstr;

using RunDataTest = test::CommandTest;

// How files are read is not asked of data in another form, which cannot answer.
TEST_F(RunDataTest, OptionsOfReadingBelongToTheFormatOfTheData) {
  const fs::path musae = folder_ / "musae", list = folder_ / "list";
  std::string edges = "id_1,id_2\n", from_one, features = "{", targets = "id,first,second\n";
  std::vector<std::int32_t> labels(40);
  for (int v = 0; v < 40; ++v) {
    const std::string node = std::to_string(v);
    edges += node + "," + std::to_string((v + 1) % 40) + "\n";
    from_one += std::to_string(v + 1) + "," + std::to_string((v + 1) % 40 + 1) + "\n";
    features += (v > 0 ? ",\"" : "\"") + node + "\":[" + std::to_string(v % 5) + "]";
    targets += node + "," + std::to_string(v % 2) + "," + std::to_string(v % 5) + "\n";
    labels[static_cast<std::size_t>(v)] = v % 5;
  }
  fs::create_directory(musae);
  test::write_text(musae / "pages_edges.csv", edges);
  test::write_text(musae / "pages_features.json", features + "}");
  test::write_text(musae / "pages_target.csv", targets);
  fs::create_directory(list);
  test::write_text(list / "edges.csv", from_one);
  write_npy(list / "labels.npy", labels, 40, 1);
  write_npy(list / "features.npy", std::vector<float>(80, 1), 40, 2);

  const auto check = [&](const fs::path& data, const std::vector<std::string>& reading) {
    SCOPED_TRACE(data.string());
    const std::string run = data.string() + ".run", graph = data.string() + ".npz";
    std::vector<std::string> words = reading;
    words.insert(words.end(),
                 {"--split", "random:40/30/30", "--checkpoint-every", "3", "--out", run});
    ASSERT_EQ(run_command(test::train_arguments(data, 3, words)).code, 0);
    const auto own = run_command({"eval", "--checkpoint", run});
    ASSERT_EQ(own.code, 0) << own.err;
    ASSERT_EQ(run_command({"export", "--run", run, "--what", "graph", "--to", graph}).code, 0);
    words = reading;
    words.insert(words.begin(),
                 {"import", "--data", data.string(), "--out", data.string() + ".in"});
    ASSERT_EQ(run_command(words).code, 0);
    fs::copy(data, data.string() + ".copy");
    for (const char* form : {".copy", ".npz", ".in"}) {
      const std::string other = data.string() + form, to = other + ".csv";
      fs::copy(run, other + ".run", fs::copy_options::recursive);
      const auto scored = run_command({"eval", "--checkpoint", run, "--data", other});
      EXPECT_EQ(scored.code, 0) << scored.err;
      EXPECT_EQ(scored.out, own.out);
      for (const std::vector<std::string>& command :
           {std::vector<std::string>{"export", "--run", run, "--what", "logits", "--to", to},
            {"train", "--config", run, "--epochs", "1", "--checkpoint-every", "0"},
            {"train", "--resume", other + ".run", "--epochs", "3"}}) {
        // Exported graphs hold the run's split, so their hash is another.
        const bool same_hash = std::string(form) != ".npz" || command[1] == "--config";
        if (!same_hash) continue;
        words = command;
        words.insert(words.end(), {"--data", other});
        const auto outcome = run_command(words);
        EXPECT_EQ(outcome.code, 0) << words[1] << ": " << outcome.err;
      }
    }
    // Shards say how they were read, and a run on them tells their data likewise.
    const std::string shards = data.string() + ".shards", sharded = data.string() + ".sharded";
    words = reading;
    words.insert(words.begin(), {"partition", "--data", data.string(), "--parts", "2", "--split",
                                 "random:40/30/30", "--out", shards});
    ASSERT_EQ(run_command(words).code, 0);
    ASSERT_EQ(run_command({"train", "--data", shards, "--epochs", "3", "--hidden", "4",
                           "--checkpoint-every", "3", "--out", sharded})
                  .code,
              0);
    const auto of_shards = run_command({"eval", "--checkpoint", sharded});
    for (const char* form : {"", ".copy", ".npz", ".in"}) {
      const std::string source = data.string() + form;
      const auto scored = run_command({"eval", "--checkpoint", sharded, "--data", source});
      EXPECT_EQ(scored.out, of_shards.out) << scored.err;
      if (source == graph) continue;  // It holds the split, so its hash is another.
      for (const std::vector<std::string>& command :
           {std::vector<std::string>{"--config", sharded, "--checkpoint-every", "0"},
            {"--resume", sharded}}) {
        words = {"train", "--data", source, "--epochs", "3"};
        words.insert(words.end(), command.begin(), command.end());
        const auto outcome = run_command(words);
        EXPECT_EQ(outcome.code, 0) << command[0] << ": " << outcome.err;
      }
    }
    // What the user asks for counts.
    EXPECT_EQ(run_command({"eval", "--checkpoint", run, "--data", graph, "--target", "first"}).code,
              2);
    fs::remove_all(data);
    const auto moved =
        run_command({"eval", "--checkpoint", run, "--data", data.string() + ".copy"});
    EXPECT_EQ(moved.out, own.out) << moved.err;
  };
  const std::string shards = path("published"), config = path("config.json");
  test::write_text(config, R"({"index-base": 1})");
  EXPECT_THAT(run_command(test::train_arguments(musae, 1,
                                                {"--config", config, "--target", "first", "--split",
                                                 "random:40/30/30"}))
                  .err,
              HasSubstr("--index-base has no effect: " + musae.string() +
                        " has a format that says from which number nodes count"));
  // Of shards that were read without a target, no run has one.
  ASSERT_EQ(run_command({"partition", "--data", list.string(), "--index-base", "1", "--parts", "2",
                         "--split", "random:40/30/30", "--out", shards})
                .code,
            0);
  test::write_text(config, R"({"data": ")" + shards + R"(", "target": "first"})");
  const auto trained = run_command(
      {"train", "--config", config, "--epochs", "1", "--hidden", "4", "--out", path("no_target")});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr(R"(--target "first" has no effect: the shards in )"));
  EXPECT_FALSE(
      test::read_json(folder_ / "no_target" / "run.json").at("options").contains("target"));

  check(musae, {"--target", "second"});
  check(list, {"--index-base", "1"});
}

TEST_F(RunDataTest, DataAndRunsAreToldApart) {
  train("run", {"--checkpoint-every", "2"});
  const std::string is_data = "is no checkpoint, but a data set or shards: give it to --data";
  refused({"eval", "--checkpoint", data_}, 3, path("ring") + ": " + is_data);
  refused(test::train_arguments(data_, 3, {"--init-from", data_}), 3, is_data);
  refused({"train", "--resume", data_}, 3, is_data);
  for (const char* run : {"run", "run/checkpoints/epoch-000002"}) {
    refused({"train", "--data", path(run)}, 3, "is a run or a checkpoint, not a data set");
  }
}

TEST_F(RunDataTest, AFileOfADataSetNamesItsDirectory) {
  fs::create_directory(folder_ / "pages");
  for (const char* name : {"edges.csv", "features.json", "target.csv"}) {
    test::write_text(folder_ / "pages" / name, "0,1\n");
    if (std::string(name) == "edges.csv") continue;
    refused({"train", "--data", path("pages/") + name}, 3,
            "is a file of the data set in " + path("pages") + ": give the directory");
  }
  refused({"train", "--data", path("ring/manifest.json")}, 3, "give the directory");
}

TEST_F(RunDataTest, AConfigFromAnotherFolderFindsItsData) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  data_ = "ring";
  train("run");
  fs::create_directory(folder_ / "elsewhere");
  fs::current_path(folder_ / "elsewhere");
  const auto outcome = run_command({"train", "--config", "../run/run.json", "--epochs", "2"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  refused({"train", "--config", "../run/run.json", "--data", "ring"}, 3, "ring does not exist");
  fs::current_path(before);
}

}  // namespace
}  // namespace heliograph
