#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <regex>
#include <span>
#include <string>
#include <vector>

#include "cli/files.hpp"
#include "cli/process.hpp"
#include "cli/sample.hpp"
#include "graph/io/npy.hpp"

// Weights of one run on other data, in other runs and in other places.

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using test::read_json;
using test::read_text;
using test::run_command;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class WeightsTest : public test::CommandTest {
 protected:
  std::vector<std::string> arguments(std::vector<std::string> more) const {
    return test::train_arguments(data_, 3, more);
  }

  /// Writes the ring's edges and features as an edge list without labels, and returns its folder.
  std::string unlabelled() const {
    const Dataset ring = test::ring(60);
    std::string edges;
    for (int v = 0; v < 60; ++v) {
      edges += std::to_string(v) + "," + std::to_string((v + 1) % 60) + "\n";
    }
    fs::create_directory(folder_ / "list");
    test::write_text(folder_ / "list" / "edges.csv", edges);
    write_npy(folder_ / "list" / "features.npy", ring.features.dense.span(), 60, 2);
    return path("list");
  }
  void add_labels() const {
    write_npy(folder_ / "list" / "labels.npy", test::ring(60).labels.class_of.span(), 60, 1);
  }
};

TEST_F(WeightsTest, CopiedWeightsSayThatLabelsAreNumbers) {
  const std::string list = unlabelled();
  std::vector<float> targets;
  for (int v = 0; v < 60; ++v) targets.push_back(static_cast<float>(v) / 8.0F);
  write_npy(folder_ / "list" / "labels.npy", std::span<const float>(targets), 60, 1);
  const std::string split = "random:60/20/20";
  ASSERT_EQ(run_command(test::train_arguments(list, 3,
                                              {"--index-base", "0", "--regression", "--split",
                                               split, "--out", path("run")}))
                .code,
            0);
  fs::copy(folder_ / "run" / "best.safetensors", path("copy.safetensors"));
  const auto outcome = run_command({"eval", "--checkpoint", path("copy.safetensors"), "--data",
                                    list, "--index-base", "0", "--split", split});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("test r2 "));
}

TEST_F(WeightsTest, EvalWithoutLabelsOrSplitGivesEverythingButScores) {
  train("run");
  const std::string list = unlabelled();
  const auto eval = [&](const std::string& data, const std::string& name) {
    std::vector<std::string> words{"eval",
                                   "--checkpoint",
                                   path("run"),
                                   "--data",
                                   data,
                                   "--out",
                                   path(name),
                                   "--save-logits",
                                   path(name + ".npy"),
                                   "--save-embeddings",
                                   path(name + "-e.npy")};
    if (data == list) words.insert(words.end(), {"--index-base", "0"});
    return run_command(words);
  };
  ASSERT_EQ(eval(data_, "labelled").code, 0);
  auto outcome = eval(list, "without-labels");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("none: 'list' has no labels"), Not(HasSubstr("test "))));
  auto scores = read_json(folder_ / "without-labels" / "eval.json");
  EXPECT_TRUE(scores.at("test_metric").is_null());
  EXPECT_EQ(scores.at("unscored"), "'list' has no labels");

  add_labels();
  outcome = eval(list, "without-split");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("none: 'list' holds no split"));
  for (const char* name : {"without-labels", "without-split"}) {
    for (const char* file : {".npy", "-e.npy", "/predictions.npy"}) {
      EXPECT_EQ(read_text(path(std::string(name) + file)),
                read_text(path(std::string("labelled") + file)))
          << name << file;
    }
  }
}

// Classes of texts are numbered in their order, so another data set may number them otherwise.
TEST_F(WeightsTest, ClassesAreMatchedByName) {
  const auto write = [&](const std::string& name, const std::vector<std::string>& kinds) {
    std::string edges = "id_1,id_2\n", features = "{", targets = "id,target\n";
    for (int v = 0; v < 60; ++v) {
      const auto kind = static_cast<std::size_t>(v / 20);
      edges += fmt::format("{},{}\n", v, v / 20 * 20 + (v + 1) % 20);
      features += fmt::format("{}\"{}\": [{}]", v == 0 ? "" : ", ", v, v % 7 == 0 ? 3 : kind);
      targets += fmt::format("{},{}\n", v, kinds[kind]);
    }
    fs::create_directory(folder_ / name);
    test::write_text(folder_ / name / "edges.csv", edges);
    test::write_text(folder_ / name / "features.json", features + "}");
    test::write_text(folder_ / name / "target.csv", targets);
    return path(name);
  };
  const std::string split = "random:60/20/20";
  const std::string fruit = write("fruit", {"apple", "berry", "cherry"});
  auto outcome = run_command(test::train_arguments(
      fruit, 9, {"--split", split, "--metric", "accuracy", "--out", path("run")}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto eval = [&](const std::string& data) {
    return run_command({"eval", "--checkpoint", path("run"), "--data", data, "--out",
                        path(fs::path(data).filename().string() + "-scores")});
  };
  ASSERT_EQ(eval(fruit).code, 0);
  const auto scores = read_json(folder_ / "fruit-scores" / "eval.json");
  const nlohmann::json names{"apple", "berry", "cherry"};
  EXPECT_EQ(scores.at("class_names"), names);
  // Of the classes that the model knows, these nodes have others.
  const std::string swapped = write("swapped", {"berry", "berry", "cherry"});
  outcome = eval(swapped);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr("warning")));
  const auto swapped_scores = read_json(folder_ / "swapped-scores" / "eval.json");
  EXPECT_LE(swapped_scores.at("train_metric"), scores.at("train_metric"));
  EXPECT_EQ(swapped_scores.at("class_names"), names);  // Not those of the data set.
  const std::string other = write("other", {"berry", "cherry", "zebra"});
  outcome = eval(other);
  EXPECT_EQ(outcome.code, 7);
  EXPECT_THAT(outcome.err, HasSubstr("the data set has class 'zebra', which the model lacks"));
  // Labels without a split are not scored, but they are checked.
  outcome = run_command({"eval", "--checkpoint", path("run"), "--data", other, "--split", "0"});
  EXPECT_EQ(outcome.code, 7);
  EXPECT_THAT(outcome.err, HasSubstr("class 'zebra', which the model lacks"));
  outcome =
      run_command(test::train_arguments(other, 1, {"--split", split, "--init-from", path("run")}));
  EXPECT_EQ(outcome.code, 7);
  EXPECT_THAT(outcome.err,
              HasSubstr("class 0 is 'apple' to the model and 'berry' in the data set"));
  const std::string renamed = write("renamed", {"apple", "berry", "zebra"});
  outcome = run_command({"export", "--run", path("run"), "--data", renamed, "--what", "predictions",
                         "--to", path("p.csv")});
  EXPECT_EQ(outcome.code, 7);
  EXPECT_THAT(outcome.err, HasSubstr("class 2 is 'cherry' to the model and 'zebra' in the"));
  outcome = eval(write("unlabelled", {"", "nan", "NA"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("none: 'unlabelled' has no labels"));
}

TEST_F(WeightsTest, EvalLeavesNoScoresOfTheEvaluationThatItReplaces) {
  train("run");
  const auto eval = [&](const char* metric) {
    return run_command({"eval", "--checkpoint", path("run"), "--data", data_, "--out", path("new"),
                        "--overwrite", "--metric", metric});
  };
  ASSERT_EQ(eval("auc").code, 0);
  EXPECT_TRUE(fs::exists(path("new/scores.npy")));
  ASSERT_EQ(eval("accuracy").code, 0);
  EXPECT_TRUE(fs::exists(path("new/predictions.npy")));
  EXPECT_FALSE(fs::exists(path("new/scores.npy")));
}

TEST_F(WeightsTest, EmbeddingsOfJoinedLayersHaveTheShapeThatHelpNames) {
  const auto trained = run_command(
      arguments({"--model", "jknet", "--layers", "3", "--save-embeddings", "--out", path("run")}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(read_npy(folder_ / "run" / "embeddings.npy").shape,
            (std::vector<std::int64_t>{60, 3 * 8}));
  for (const char* command : {"train", "eval"}) {
    const std::string help = run_command({command, "--help"}).out;
    const auto words = std::regex_replace(help, std::regex("\\s+"), " ");
    EXPECT_THAT(words, HasSubstr("with --jk concat nodes x (--layers x --hidden)")) << command;
  }
}

TEST_F(WeightsTest, CopiedWeightsRefuseAnotherGraph) {
  const std::string list = unlabelled();
  add_labels();
  std::string edges;
  for (int v = 0; v < 60; ++v) {
    edges += std::to_string(v) + "," + std::to_string((v + 1) % 60) + ",0." +
             std::to_string(1 + v % 9) + "\n";
  }
  test::write_text(folder_ / "list" / "edges.csv", edges);
  const std::vector<std::string> base{"--index-base", "0", "--split", "random:60/20/20"};
  const auto eval = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", "--checkpoint", path("copy.safetensors"), "--data", list});
    more.insert(more.end(), base.begin(), base.end());
    return more;
  };
  std::vector<std::string> words = base;
  words.insert(words.end(), {"--ignore-weights", "--keep-direction", "--checkpoint-every", "2",
                             "--out", path("run")});
  ASSERT_EQ(run_command(test::train_arguments(list, 3, words)).code, 0);
  fs::copy(folder_ / "run" / "best.safetensors", path("copy.safetensors"));
  refused(eval({}), 7, "this one is undirected: import or read the data with --keep-direction");
  refused(eval({"--keep-direction"}), 7, "this one has some: read the data with --ignore-weights");
  EXPECT_EQ(run_command(eval({"--keep-direction", "--ignore-weights"})).code, 0);
  // A run folder knows, so that only a flag can contradict it.
  EXPECT_EQ(run_command({"eval", "--checkpoint", path("run")}).code, 0);
  refused({"train", "--resume", path("run"), "--epochs", "5", "--no-ignore-weights"}, 7,
          "epoch-000003: trained on a graph without edge weights");

  // Attention does not read the weights of edges.
  words = base;
  words.insert(words.end(), {"--model", "gat", "--out", path("gat")});
  ASSERT_EQ(run_command(test::train_arguments(list, 3, words)).code, 0);
  const auto weighted = run_command({"eval", "--checkpoint", path("gat")});
  const auto ignored = run_command({"eval", "--checkpoint", path("gat"), "--ignore-weights"});
  EXPECT_EQ(ignored.code, 0) << ignored.err;
  EXPECT_THAT(weighted.out, Not(HasSubstr("differs")));
  const char* said = "list differs from the data that the run trained on";
  EXPECT_THAT(ignored.out, AllOf(StartsWith(weighted.out), HasSubstr(said)));
  test::write_text(folder_ / "list" / "edges.csv", edges.substr(edges.find('\n') + 1));
  EXPECT_THAT(run_command({"eval", "--checkpoint", path("gat")}).out, HasSubstr(said));
}

TEST_F(WeightsTest, AMaskThatIsNotUsedMayBeWrong) {
  data_ = unlabelled();
  add_labels();
  write_npy(folder_ / "list" / "train_mask.npy", std::vector<std::int32_t>(59, 1), 59, 1);
  refused(arguments({"--index-base", "0"}), 3, "train_mask.npy");
  const auto drawn = run_command(arguments({"--index-base", "0", "--split", "per-class:5/10/10"}));
  EXPECT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_THAT(drawn.err, AllOf(HasSubstr("train_mask.npy"), HasSubstr("own splits are unused")));
}

TEST_F(WeightsTest, AFileOfWeightsKnowsItsSplit) {
  train("run", {"--split", "random:40/30/30", "--split-seed", "5"});
  fs::copy_file(folder_ / "run" / "best.safetensors", folder_ / "copy.safetensors");
  const auto eval = [&](const std::string& weights, std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", "--checkpoint", path(weights), "--data", data_});
    const auto outcome = run_command(more);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  for (const char* weights : {"run", "copy.safetensors"}) {
    SCOPED_TRACE(weights);
    EXPECT_THAT(eval(weights, {}), AllOf(HasSubstr("random:40/30/30"), Not(HasSubstr("warning"))));
    EXPECT_THAT(eval(weights, {"--split-seed", "6"}),
                AllOf(HasSubstr("random:40/30/30: "),
                      HasSubstr("trained on split random:40/30/30, seed 5")));
    EXPECT_THAT(eval(weights, {"--split", "0"}),
                HasSubstr("trained on split random:40/30/30, seed 5"));
  }
  train("given");
  refused({"eval", "--checkpoint", path("given"), "--split-seed", "6"}, 2,
          "--split-seed needs --split random:T/V/E");
}

TEST_F(WeightsTest, AnInitialModelOfAnotherShapeIsNamedByOption) {
  train("run");
  const std::string trained = "its weights were trained with ";
  refused(arguments({"--init-from", path("run"), "--hidden", "16"}), 7,
          trained + "--hidden 8, and this run has --hidden 16");
  refused(arguments({"--init-from", path("run"), "--layers", "3"}), 7,
          trained + "--layers 2, and this run has --layers 3");
  refused(arguments({"--init-from", path("run"), "--model", "gcn"}), 7,
          trained + "--model sage, and this run has --model gcn");
  EXPECT_EQ(run_command(arguments({"--init-from", path("run"), "--dropout", "0.1"})).code, 0);
  const std::string advice = "; --config RUN takes the run's options\n";
  refused({"train", "--data", data_, "--init-from", path("run")}, 7, advice);
  const auto taken = run_command({"train", "--config", path("run"), "--init-from", path("run")});
  EXPECT_EQ(taken.code, 0) << taken.err;
}

TEST_F(WeightsTest, FilesOfAnotherKindAreNotTakenForWeights) {
  train("run");
  test::write_text(folder_ / "graph.json", "{\"nodes\": [1, 2, 3]}");
  for (const char* file : {"graph.json", "run/predictions.npy"}) {
    const std::string sentence = path(file) + ": is no .safetensors file";
    refused({"eval", "--checkpoint", path(file), "--data", data_}, 3, sentence);
    refused(arguments({"--init-from", path(file)}), 3, sentence);
  }
  refused({"train", "--resume", path("run/best.safetensors")}, 3,
          "best.safetensors: is a file; a checkpoint is a directory");
}

TEST_F(WeightsTest, ADataSetWithoutAnyLabelSaysSo) {
  data_ = unlabelled();
  write_npy(folder_ / "list" / "labels.npy", std::vector<std::int32_t>(60, -1), 60, 1);
  for (const char* name : {"train_mask", "val_mask", "test_mask"}) {
    write_npy(folder_ / "list" / (std::string(name) + ".npy"), std::vector<std::int32_t>(60, 1), 60,
              1);
  }
  refused(arguments({"--index-base", "0"}), 3,
          "no node of the data set has a label: they are all NaN or -1");
}

TEST_F(WeightsTest, FeaturesThatOverflowAreNamedBeforeTheLearningRate) {
  Dataset large = test::ring(60);
  std::vector<float> features(large.features.dense.begin(), large.features.dense.end());
  for (float& value : features) value *= 3e38F;
  large.features.dense = features;
  save_native(large, folder_ / "large");
  data_ = path("large");
  const std::string advice =
      "the features (--normalize scales them) or edge weights may be too large; else lower --lr";
  refused(arguments({"--parts", "1"}), 6, advice);
  refused(arguments({"--parts", "2"}), 6, advice);
}

TEST_F(WeightsTest, OnlyTheRunJsonOfARunTellsOptions) {
  train("run", {"--checkpoint-every", "2"});
  const std::string copy = path("project/models/copy.safetensors");
  fs::create_directories(folder_ / "project" / "models");
  fs::copy_file(folder_ / "run" / "best.safetensors", copy);
  const std::vector<std::string> eval{"eval", "--checkpoint", copy, "--data", data_};
  const std::string expected = run_command(eval).out;
  EXPECT_THAT(expected, HasSubstr("test accuracy"));
  for (const char* text : {R"({"tool": "other", "lr": 0.1})", "not JSON"}) {
    test::write_text(folder_ / "project" / "run.json", text);
    EXPECT_EQ(run_command(eval).out, expected) << text;
  }
  fs::remove(folder_ / "project" / "run.json");
  fs::create_directory(folder_ / "project" / "run.json");
  EXPECT_EQ(run_command(eval).out, expected);
  for (const char* own : {"run", "run/best.safetensors", "run/checkpoints/epoch-000002",
                          "run/checkpoints/epoch-000002/weights.safetensors"}) {
    EXPECT_EQ(run_command({"eval", "--checkpoint", path(own)}).code, 0) << own;
  }
  // Nor does that of the working directory, whose run the weights are not of.
  fs::copy(folder_ / "run" / "checkpoints" / "epoch-000002", folder_ / "apart",
           fs::copy_options::recursive);
  train("other", {"--checkpoint-every", "2", "--hidden", "6"});
  const fs::path before = fs::current_path();
  for (const char* folder : {"project", "other"}) {
    fs::current_path(folder_ / folder);
    EXPECT_EQ(run_command(eval).out, expected) << folder;
    const auto resumed = run_command(
        {"train", "--resume", path("apart"), "--data", data_, "--out", path("new"), "--overwrite"});
    EXPECT_EQ(resumed.code, 0) << folder << resumed.err;
  }
  // Nor that of a run into whose directory a checkpoint of another was copied.
  fs::copy(folder_ / "apart", folder_ / "other" / "apart", fs::copy_options::recursive);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"eval", "--checkpoint", path("other/apart")},
        {"train", "--resume", path("other/apart"), "--out", path("new"), "--overwrite"}}) {
    refused(words, 2, "--data is required");
  }
  fs::current_path(before);
  test::write_text(folder_ / "run" / "run.json", "{\"format\": ");
  const std::string damaged = "error: " + path("run/run.json") + " is not JSON";
  refused({"eval", "--checkpoint", path("run")}, 3, damaged);
  refused({"train", "--resume", path("run")}, 3, damaged);
}

TEST_F(WeightsTest, ARunOnDevicesIsScoredOnACpuIfAskedTo) {
  train("run");
  auto manifest = test::read_json(folder_ / "run" / "run.json");
  manifest["options"]["device"] = "cuda";
  test::write_text(folder_ / "run" / "run.json", manifest.dump());
  const auto scored = run_command({"eval", "--checkpoint", path("run"), "--device", "cpu"});
  EXPECT_EQ(scored.code, 0) << scored.err;
}

}  // namespace
}  // namespace heliograph
