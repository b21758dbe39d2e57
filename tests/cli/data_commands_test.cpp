#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "cli/files.hpp"
#include "cli/process.hpp"
#include "cli/sample.hpp"
#include "heliograph/io.hpp"
#include "heliograph/partition.hpp"
#include "support/files.hpp"

namespace heliograph {
namespace {

using test::run_command;
using test::TemporaryDirectory;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(EdgeWeights, AreShownAndIgnoredOnRequest) {
  const TemporaryDirectory folder;
  Dataset data = test::ring(60);
  std::vector<float> weights(120, 0.5F);
  weights[0] = weights[2] = 3;  // between nodes 0 and 1
  data.graph.edge_weights = weights;
  save_native(data, folder / "weighted");
  const std::string weighted = (folder / "weighted").string();
  const std::string plain = (folder / "plain").string();
  const auto kept =
      run_command({"import", "--data", weighted, "--out", (folder / "copy").string()});
  ASSERT_EQ(kept.code, 0) << kept.err;
  EXPECT_THAT(kept.out, ::testing::ContainsRegex("edge weights +from 0.5 to 3\n"));
  const auto ignored =
      run_command({"import", "--data", weighted, "--out", plain, "--ignore-weights"});
  ASSERT_EQ(ignored.code, 0) << ignored.err;
  EXPECT_THAT(ignored.out, Not(HasSubstr("weights")));
  EXPECT_TRUE(load_dataset(plain).graph.edge_weights.empty());

  const std::string out = (folder / "run").string();
  EXPECT_THAT(run_command(test::train_arguments(weighted, 1, {"--out", out})).err,
              HasSubstr("edge weights from 0.5 to 3\n"));
  EXPECT_THAT(run_command({"eval", "--checkpoint", out, "--data", weighted}).err,
              HasSubstr("edge weights from 0.5 to 3\n"));
  EXPECT_THAT(run_command(test::train_arguments(weighted, 1, {"--ignore-weights"})).err,
              Not(HasSubstr("edge weights")));
  const std::string shards = (folder / "shards").string();
  ASSERT_EQ(run_command({"partition", "--data", weighted, "--parts", "2", "--out", shards}).code,
            0);
  EXPECT_THAT(run_command({"train", "--data", shards, "--epochs", "1"}).err,
              HasSubstr("edge weights from 0.5 to 3\n"));
  EXPECT_EQ(run_command({"train", "--data", shards, "--epochs", "1", "--ignore-weights"}).code, 2);
}

TEST(GenerateCommand, LeavesNothingWhenASignalStopsIt) {
  for (const auto& [signal, name] : {std::pair{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}}) {
    const TemporaryDirectory folder;
    const auto empty = [&] { return std::filesystem::is_empty(folder.path()); };
    // The directory is made before the edges are drawn, which takes seconds.
    const auto outcome = run_command({"generate", "--nodes", "1000000", "--edges", "30000000",
                                      "--quiet", "--out", (folder / "graph").string()},
                                     [&, s = signal](int child) {
                                       EXPECT_TRUE(test::wait_until([&] { return !empty(); }, 60));
                                       ::kill(child, s);
                                     });
    EXPECT_EQ(outcome.code, 128 + signal);
    EXPECT_EQ(outcome.err, std::string("heliograph: stopped by ") + name + "\n");
    EXPECT_TRUE(empty());
  }
}

TEST(TrainCommand, NamesTheLastEpochWhereNothingChoosesTheBest) {
  const TemporaryDirectory folder;
  const std::string data = test::save_ring(folder / "ring", 60);
  const auto printed = [&](const char* split) {
    return run_command(test::train_arguments(data, 3, {"--split", split})).out;
  };
  EXPECT_THAT(printed("random:60/0/40"),
              HasSubstr("2 (of 0 to 2), the last that was evaluated: no validation score\n"));
  EXPECT_THAT(printed("random:60/20/20"), HasSubstr(" (of 0 to 2), by validation\n"));
}

TEST(PartitionCommand, WritesWhatTrainReads) {
  const TemporaryDirectory folder;
  const std::string data = test::save_ring(folder / "ring", 60);
  const std::string owners = (folder / "ring.part.3").string();
  const std::vector<std::string> words{"partition", "--data",   data,  "--parts",
                                       "3",         "--owners", owners};
  const auto outcome = run_command(words);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part : {"edge cut", "communication volume", "halo nodes", "balance"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
  const Partition partition = read_partition(owners, 60, 3);
  EXPECT_THAT(outcome.out, HasSubstr(partition_hash(partition)));

  EXPECT_EQ(run_command(words).code, 2) << "an existing file was replaced";
  const auto onto_folder = run_command({"partition", "--data", data, "--parts", "3", "--owners",
                                        folder.path().string(), "--overwrite"});
  EXPECT_EQ(onto_folder.code, 2) << onto_folder.err;
  EXPECT_THAT(onto_folder.err, HasSubstr("is a directory"));
  const auto trained =
      run_command({"train", "--data", data, "--parts", "3", "--partitioner", "file:" + owners,
                   "--epochs", "1", "--hidden", "4", "--out", (folder / "run").string()});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(test::read_json(folder / "run" / "run.json").at("partition_hash"),
            partition_hash(partition));

  const std::vector<std::string> scores{"eval", "--checkpoint", (folder / "run").string()};
  const auto on = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> all = scores;
    all.insert(all.end(), more);
    return run_command(all);
  };
  EXPECT_EQ(on({}).code, 0);
  // Scores do not depend on the cut, so other numbers of ranks need no file.
  for (const char* parts : {"1", "2"}) EXPECT_EQ(on({"--parts", parts}).code, 0) << parts;
  const auto asked = on({"--parts", "2", "--partitioner", "file:" + owners});
  EXPECT_EQ(asked.code, 3);
  EXPECT_THAT(asked.err, HasSubstr("--partitioner metis needs no file"));
  const auto alone = run_command({"train", "--data", data, "--partitioner", "file:" + owners});
  EXPECT_EQ(alone.code, 3);
  EXPECT_THAT(alone.err, Not(HasSubstr("no effect")));
}

TEST(PartitionCommand, CutsAnInductiveRunAsTrainDoes) {
  const TemporaryDirectory folder;
  const std::string data = test::save_ring(folder / "ring", 60);
  for (const std::string partitioner : {"metis", "random", "contiguous"}) {
    SCOPED_TRACE(partitioner);
    const std::string run = (folder / ("run_" + partitioner)).string();
    const std::vector<std::string> cut{"--data",   data, "--parts",       "3",        "--inductive",
                                       "--hidden", "4",  "--partitioner", partitioner};
    std::vector<std::string> words{"partition", "--out", (folder / partitioner).string()};
    words.insert(words.end(), cut.begin(), cut.end());
    const auto predicted = run_command(words);
    ASSERT_EQ(predicted.code, 0) << predicted.err;
    words.erase(words.begin() + 1, words.begin() + 3);
    const auto unwritten = run_command(words);
    EXPECT_EQ(unwritten.code, 0) << unwritten.err;
    EXPECT_THAT(predicted.out, StartsWith(unwritten.out));
    words = {"train", "--epochs", "1", "--out", run};
    words.insert(words.end(), cut.begin(), cut.end());
    const auto trained = run_command(words);
    ASSERT_EQ(trained.code, 0) << trained.err;
    const auto manifest = test::read_json(run + "/run.json");
    const auto hash = manifest.at("partition_hash");
    EXPECT_THAT(predicted.out, HasSubstr(hash.get<std::string>()));
    const auto sharded = run_command({"train", "--data", (folder / partitioner).string(),
                                      "--epochs", "1", "--hidden", "4", "--out", run + ".shards"});
    ASSERT_EQ(sharded.code, 0) << sharded.err;
    EXPECT_EQ(test::read_json(run + ".shards/run.json").at("options").at("balance-train"),
              manifest.at("options").at("balance-train"));
    EXPECT_THAT(predicted.out,
                HasSubstr("rows an exchange of the whole graph, as in evaluation\n"));
  }
}

TEST(PartitionCommand, PrintsBytesWaitingAndMemoryByBits) {
  const TemporaryDirectory folder;
  const std::string data = test::save_ring(folder / "ring", 60);
  std::vector<std::string> words{"partition", "--data", data, "--parts", "3", "--hidden", "8"};
  const auto plain = run_command(words);
  ASSERT_EQ(plain.code, 0) << plain.err;
  for (const char* part : {"\n  32 ", "\n  16 ", "\n  8 ", "\n  4 ", "\n  2 ", "\n  1 ",
                           "bytes an epoch", "memory a rank"}) {
    EXPECT_THAT(plain.out, HasSubstr(part));
  }
  EXPECT_THAT(plain.out, Not(HasSubstr("waiting")));
  words.insert(words.end(), {"--link-gbps", "0.001"});
  EXPECT_THAT(run_command(words).out, HasSubstr("waiting"));
  words.insert(words.end(), {"--exchange", "auto"});
  EXPECT_THAT(run_command(words).out,
              HasSubstr("boundary rows, since with covers an exchange sends"));
  words.back() = "cover";
  EXPECT_THAT(run_command(words).out, HasSubstr("  covers: an exchange sends"));
  words.back() = "auto";
  words.insert(words.end(), {"--layers", "3", "--dropout", "0.5"});
  EXPECT_THAT(run_command(words).out, HasSubstr("\n  kept columns: columns that dropout drops"));
  std::ranges::replace(words, "0.001", "0.3");
  EXPECT_THAT(run_command(words).out,
              HasSubstr("\n  kept columns at 32, 16, 8, 4 and 2 bits: columns that dropout drops"));
  const auto one = run_command({"partition", "--data", data, "--parts", "1"});
  EXPECT_THAT(one.out, Not(HasSubstr("bytes an epoch")));
  EXPECT_THAT(one.out, HasSubstr("the least that training holds"));
}

TEST(PartitionCommand, TakesTheNamesOfTrainAndSaysWhatDoesNotFit) {
  const TemporaryDirectory folder;
  const std::string data = test::save_ring(folder / "ring", 60);
  const std::string owners = (folder / "ring.part.20").string();
  const auto small = run_command({"partition", "--data", data, "--parts", "20", "--partition-seed",
                                  "3", "--partitioner", "contiguous", "--owners", owners});
  EXPECT_EQ(small.code, 0) << small.err;
  EXPECT_THAT(small.err, HasSubstr("20 of 20 parts have fewer than 4 nodes"));
  EXPECT_THAT(run_command({"partition", "--data", data, "--parts", "5"}).err,
              Not(HasSubstr("fewer than")));
  const auto alone = run_command({"partition", "--data", data, "--partitioner", "file:" + owners});
  EXPECT_EQ(alone.code, 3);
  EXPECT_THAT(alone.err, HasSubstr("out of range of 1 part: --parts must be the number of parts"));
  const auto shards = run_command({"partition", "--data", data, "--parts", "2", "--split",
                                   "random:50/25/25", "--out", (folder / "shards").string()});
  EXPECT_THAT(shards.out, HasSubstr("random:50/25/25: 30 nodes to train on, 15 to validate"));
}

TEST(PartitionCommand, WritesShardsThatTrain) {
  const TemporaryDirectory folder;
  const std::string data = test::save_ring(folder / "ring", 60);
  const std::string shards = (folder / "ring-3").string();
  const std::vector<std::string> words{"partition", "--data",          data,    "--parts", "3",
                                       "--split",   "random:60/20/20", "--out", shards};
  const auto outcome = run_command(words);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(run_command(words).code, 2) << "existing shards were replaced";

  const auto train = [&](std::vector<std::string> flags) {
    std::vector<std::string> all{"train", "--data", shards, "--epochs", "2", "--hidden", "4"};
    all.insert(all.end(), flags.begin(), flags.end());
    return run_command(all);
  };
  const auto trained = train({"--out", (folder / "run").string()});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto run = test::read_json(folder / "run" / "run.json");
  EXPECT_EQ(run.at("options").at("parts"), 3);
  EXPECT_EQ(run.at("dataset").at("nodes"), 60);
  EXPECT_EQ(train({"--parts", "3"}).code, 0);

  const auto others = train({"--parts", "2"});
  EXPECT_EQ(others.code, 7);
  EXPECT_THAT(others.err, HasSubstr("--parts 2"));
  EXPECT_EQ(train({"--normalize", "row"}).code, 7);
  EXPECT_EQ(train({"--no-stratified"}).code, 0);
  EXPECT_EQ(train({"--stratified"}).code, 7);
  EXPECT_EQ(train({"--split-seed", "0"}).code, 0) << "the seed of the shards";
  EXPECT_EQ(train({"--split-seed", "5"}).code, 7);
  const std::string config = (folder / "config.json").string();
  test::write_text(config, "{\"data\": \"" + shards + "\", \"epochs\": 1, \"hidden\": 4}");
  const auto configured = run_command({"train", "--config", config, "--split-seed", "0"});
  EXPECT_EQ(configured.code, 0) << configured.err;
  const auto cut = train({"--partitioner", "random"});
  EXPECT_EQ(cut.code, 2);
  EXPECT_THAT(cut.err, HasSubstr("cut already"));
}

// What a run on shards tells of how they were cut and read makes the same run on the data set.
TEST(PartitionCommand, ShardsKnowHowTheyWereCutAndRead) {
  const TemporaryDirectory folder;
  const std::string file = (folder / "directed.npz").string();
  Dataset data = test::ring(40);
  std::vector<std::int64_t> sources, targets;
  std::vector<float> numbers;
  for (std::int64_t v = 0; v < 40; ++v) {
    sources.push_back(v);
    targets.push_back((v + 1) % 40);
    numbers.push_back(static_cast<float>(v));
  }
  data.graph = make_graph(40, sources, targets, true);
  data.graph.edge_weights = std::vector<float>(40, 2);
  data.labels = {};
  data.labels.task = Task::regression;
  data.labels.classes = 1;
  data.labels.values = std::move(numbers);
  data.class_names.clear();
  data.splits.clear();
  save_npz(data, file);
  const std::vector<std::string> reading{"--data", file, "--keep-direction", "--regression",
                                         "--ignore-weights"};
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const std::string shards = (folder / "shards").string(), run = (folder / "run").string();
  const auto cut =
      run_command(with({"partition", "--parts", "3", "--partitioner", "random", "--partition-seed",
                        "5", "--split", "random:60/20/20", "--out", shards},
                       reading));
  ASSERT_EQ(cut.code, 0) << cut.err;
  const std::vector<std::string> train{"--epochs", "2", "--hidden", "4"};
  const auto trained = run_command(with({"train", "--data", shards, "--out", run}, train));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("3 ranks (random)"));
  const auto options = test::read_json(folder / "run" / "run.json").at("options");
  EXPECT_EQ(options.at("partition-seed"), 5);
  EXPECT_EQ(options.at("keep-direction"), true);
  EXPECT_EQ(options.at("regression"), true);
  EXPECT_EQ(options.at("ignore-weights"), true);

  const std::string again = (folder / "again").string();
  const auto repeated =
      run_command({"train", "--config", run, "--data", file, "--out", again, "--quiet"});
  ASSERT_EQ(repeated.code, 0) << repeated.err;
  EXPECT_EQ(test::read_json(folder / "again" / "run.json").at("partition_hash"),
            test::read_json(folder / "run" / "run.json").at("partition_hash"));
  const auto exported = run_command({"export", "--run", run, "--data", file, "--what", "partition",
                                     "--to", (folder / "owners.npy").string()});
  EXPECT_EQ(exported.code, 0) << exported.err;
}

TEST(GenerateCommand, MakesAGraphThatTrains) {
  const TemporaryDirectory folder;
  const std::string graph = (folder / "graph").string();
  const auto outcome = run_command({"generate", "--nodes", "300", "--edges", "1200", "--features",
                                    "8", "--classes", "3", "--seed", "5", "--out", graph});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("300"));
  EXPECT_THAT(outcome.out, HasSubstr("180 nodes to train on, 60 to validate, 60 to test"));
  const Dataset dataset = load_dataset(graph);
  EXPECT_EQ(dataset.graph.nodes, 300);
  const std::string edges = std::to_string(dataset.graph.entries() / 2);
  EXPECT_THAT(outcome.out, HasSubstr(" " + edges.substr(0, 1) + "," + edges.substr(1) + "\n"));
  EXPECT_EQ(dataset.features.cols, 8);
  EXPECT_EQ(dataset.labels.classes, 3);
  EXPECT_EQ(run_command(test::train_arguments(graph, 1, {"--quiet"})).code, 0);
  EXPECT_EQ(run_command({"generate", "--nodes", "300", "--out", graph}).code, 2);
}

TEST(GenerateCommand, DrawsEdgesThatFitTheNodes) {
  const TemporaryDirectory folder;
  for (const auto& [nodes, edges] : {std::pair("10", 5), std::pair("100", 618), {"1000", 10000}}) {
    const std::string graph = (folder / nodes).string();
    const auto outcome = run_command({"generate", "--nodes", nodes, "--out", graph, "--quiet"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto drawn = static_cast<double>(load_dataset(graph).graph.neighbours.size()) / 2;
    EXPECT_LE(drawn, edges);
    EXPECT_GE(drawn, 0.5 * edges);
  }
}

TEST(GenerateCommand, RefusesWhatTheMachineCannotHold) {
  const TemporaryDirectory folder;
  const auto outcome = run_command({"generate", "--nodes", "2000000000", "--edges",
                                    "1000000000000000", "--out", (folder / "graph").string()});
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.err, HasSubstr("need about 14901"));
  EXPECT_THAT(outcome.err, HasSubstr("GiB available: lower --nodes, --edges or --scale"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(GenerateCommand, RefusesFlagsOfTheOtherModel) {
  const TemporaryDirectory folder;
  for (const char* flag : {"--homophily", "--degree-exponent"}) {
    const auto outcome = run_command(
        {"generate", "--model", "rmat", flag, "0.5", "--out", (folder / "graph").string()});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(std::string(flag) + " needs --model block"));
  }
}

TEST(GenerateCommand, LabelNoiseHasAFlag) {
  const TemporaryDirectory folder;
  const auto hash = [&](const std::string& noise) {
    const std::string graph = (folder / ("noise" + noise)).string();
    const auto outcome = run_command({"generate", "--nodes", "200", "--edges", "400", "--features",
                                      "4", "--label-noise", noise, "--out", graph});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? dataset_hash(load_dataset(graph)) : std::string();
  };
  EXPECT_NE(hash("0"), hash("0.5"));
}

TEST(GenerateCommand, NamesFlags) {
  const TemporaryDirectory folder;
  for (const auto& [flag, value] : {std::pair("--features", "0"), std::pair("--label-noise", "2"),
                                    std::pair("--train-share", "0"), std::pair("--rmat-a", "7")}) {
    const auto outcome = run_command(
        {"generate", "--model", "rmat", flag, value, "--out", (folder / "graph").string()});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(std::string("error: ") + flag)) << outcome.err;
  }
}

TEST(GenerateCommand, FlagsChangeAPreset) {
  const TemporaryDirectory folder;
  const std::string graph = (folder / "graph").string();
  const auto outcome = run_command({"generate", "--classes", "4", "--preset", "reddit", "--scale",
                                    "0.0001", "--features", "6", "--out", graph, "--quiet"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out + outcome.err, "");
  const Dataset dataset = load_dataset(graph);
  EXPECT_EQ(dataset.features.cols, 6);
  EXPECT_EQ(dataset.labels.classes, 4);
}

TEST(ImportCommand, ReplacesNothingWithoutOut) {
  const TemporaryDirectory folder;
  const auto refused =
      run_command({"import", "--data", test::save_ring(folder / "ring", 6), "--overwrite"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--overwrite needs --out"));
}

TEST(ImportCommand, PrintsCountsAndWritesTheSameGraph) {
  const TemporaryDirectory folder;
  const std::string data = test::save_ring(folder / "ring", 60);
  const std::string copy = (folder / "copy").string();
  const auto described = run_command({"import", "--data", data});
  EXPECT_EQ(described.code, 0) << described.err;
  EXPECT_THAT(described.out, HasSubstr("  splits      1\n"));
  EXPECT_THAT(described.out, HasSubstr("nothing: give --out"));
  EXPECT_FALSE(std::filesystem::exists(copy));
  const auto outcome = run_command({"import", "--data", data, "--out", copy});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part : {"nodes", "self-loops", "duplicates", "isolated", "hash"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
  EXPECT_EQ(dataset_hash(load_dataset(copy)), dataset_hash(load_dataset(data)));
  EXPECT_EQ(run_command({"import", "--data", data, "--out", copy}).code, 2);
  EXPECT_EQ(run_command({"import", "--data", data, "--out", copy, "--overwrite"}).code, 0);
}

}  // namespace
}  // namespace heliograph
