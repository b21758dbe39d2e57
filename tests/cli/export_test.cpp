#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "cli/files.hpp"
#include "cli/process.hpp"
#include "cli/sample.hpp"
#include "graph/io/npy.hpp"
#include "graph/io/npz.hpp"
#include "heliograph/model.hpp"
#include "heliograph/partition.hpp"
#include "heliograph/split.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using test::read_json;
using test::read_text;
using test::run_command;

class Export : public test::CommandTest {
 protected:
  std::vector<std::string> words(const std::string& what, const std::string& to,
                                 std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"export", "--run", path("run"), "--what", what, "--to", path(to)});
    return more;
  }
  void exported(const std::string& what, const std::string& to,
                const std::vector<std::string>& more = {}) const {
    const auto outcome = run_command(words(what, to, more));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, ::testing::HasSubstr("written to " + path(to)));
  }
  std::vector<float> numbers(const std::string& file) const {
    const auto values = to_float32(read_npy(path(file)));
    return {values.begin(), values.end()};
  }
  std::vector<std::vector<std::string>> table(const std::string& file) const {
    std::vector<std::vector<std::string>> rows;
    std::istringstream lines(read_text(path(file)));
    for (std::string line; std::getline(lines, line);) {
      rows.emplace_back();
      std::istringstream fields(line + ",");
      for (std::string field; std::getline(fields, field, ',');) rows.back().push_back(field);
    }
    return rows;
  }
};

TEST_F(Export, ATableHasPredictionLabelAndRoleOfEachNode) {
  Dataset ring = test::ring(60);
  ring.class_names = {"left", "right"};
  std::vector<std::int32_t> classes(ring.labels.class_of.begin(), ring.labels.class_of.end());
  classes[5] = -1;
  ring.labels.class_of = classes;
  std::vector<Role> roles(ring.splits[0].role.begin(), ring.splits[0].role.end());
  roles[5] = Role::none;
  ring.splits[0].role = roles;
  save_native(ring, path("named"));
  data_ = path("named");
  train("run", {"--split", "random:50/20/30", "--split-seed", "4"});
  exported("predictions", "table.csv");
  const auto rows = table("table.csv");
  ASSERT_EQ(rows.size(), 61);
  EXPECT_EQ(rows[0], (std::vector<std::string>{"node", "prediction", "label", "role"}));
  const auto predicted = to_int32(read_npy(path("run/predictions.npy")));
  const Split split = make_split(ring, RandomSplit{50, 20, 30, 4});
  const char* names[] = {"none", "train", "validation", "test"};
  for (std::size_t v = 0; v < 60; ++v) {
    const std::string label =
        classes[v] < 0 ? "" : ring.class_names[static_cast<std::size_t>(classes[v])];
    EXPECT_EQ(rows[v + 1],
              (std::vector<std::string>{std::to_string(v),
                                        ring.class_names[static_cast<std::size_t>(predicted[v])],
                                        label, names[static_cast<int>(split.role[v])]}));
  }
}

TEST_F(Export, ATableOfSeveralLabelsHasAColumnForEach) {
  Dataset ring = test::ring(60);
  ring.labels.task = Task::multilabel;
  ring.labels.classes = 3;
  ring.class_names = {"a,b", "c", "d"};
  std::vector<std::uint8_t> flags(180), labelled(60, 1);
  for (std::size_t i = 0; i < 180; ++i) flags[i] = i / 3 % (2 + i % 3) == 0;
  labelled[3] = 0;
  for (std::size_t i = 9; i < 12; ++i) flags[i] = 0;
  ring.labels.class_of = {};
  ring.labels.indicators = flags;
  ring.labels.labelled = labelled;
  ring.splits.clear();
  save_native(ring, path("flags"));
  data_ = path("flags");
  const auto trained = run_command(
      test::train_arguments(data_, 3, {"--split", "random:50/20/30", "--out", path("run")}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  exported("predictions", "table.csv");
  const std::string text = read_text(path("table.csv"));
  EXPECT_TRUE(text.starts_with(
      "node,\"prediction_a,b\",prediction_c,prediction_d,\"label_a,b\",label_c,label_d,role\n"))
      << text.substr(0, 100);
  const auto rows = table("table.csv");
  const auto predicted = to_int32(read_npy(path("run/predictions.npy")));
  for (std::size_t i = 0; i < 180; ++i) {
    const auto& row = rows[i / 3 + 1];
    EXPECT_EQ(row[1 + i % 3], std::to_string(predicted[i]));
    EXPECT_EQ(row[4 + i % 3], i / 3 == 3 ? "" : std::to_string(flags[i]));
  }
}

TEST_F(Export, ValuesThatTheRunKeptAreCopiedAndOthersComputed) {
  train("run", {"--save-logits", "--save-embeddings"});
  train("bare");
  for (const std::string what : {"logits", "embeddings"}) {
    exported(what, what + ".npy");
    EXPECT_EQ(read_text(path(what + ".npy")), read_text(path("run/" + what + ".npy")));
    const auto computed = run_command(
        {"export", "--run", path("bare"), "--what", what, "--to", path("bare-" + what + ".npy")});
    ASSERT_EQ(computed.code, 0) << computed.err;
    EXPECT_EQ(read_npy(path("bare-" + what + ".npy")).shape, read_npy(path(what + ".npy")).shape);
    const auto kept = numbers(what + ".npy"), other = numbers("bare-" + what + ".npy");
    float most = 0;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      most = std::max(most, std::abs(kept[i] - other[i]));
    }
    constexpr float rounding = 1e-4F;  // Of sums over one rank and over two.
    EXPECT_LE(most, rounding);

    exported(what, what + ".csv");
    const auto rows = table(what + ".csv");
    const std::size_t cols = kept.size() / 60;
    ASSERT_EQ(rows[0].size(), cols + 1);
    EXPECT_EQ(rows[0][cols], std::to_string(cols - 1));
    for (std::size_t i = 0; i < kept.size(); ++i) {
      EXPECT_EQ(std::stof(rows[i / cols + 1][i % cols + 1]), kept[i]);
    }
    exported(what, what + ".safetensors");
    const std::string text = read_text(path(what + ".safetensors"));
    EXPECT_THAT(text, ::testing::HasSubstr('"' + what + "\":{\"dtype\":\"F32\",\"shape\":[60," +
                                           std::to_string(cols) + "]"));
    const std::string bytes(reinterpret_cast<const char*>(kept.data()), 4 * kept.size());
    EXPECT_TRUE(text.ends_with(bytes));
  }
  exported("predictions", "predictions.npy");
  EXPECT_EQ(read_text(path("predictions.npy")), read_text(path("run/predictions.npy")));
}

TEST_F(Export, WeightsAreThoseOfTheBestEpoch) {
  train("run", {"--normalize", "standard"});
  const Model model = Model::load(path("run"));
  exported("weights", "weights.npz");
  const NpzArchive archive(path("weights.npz"));
  for (const Tensor& tensor : model.tensors) {
    const NpyArray array = archive.read(tensor.name);
    const auto values = to_float32(array);
    EXPECT_EQ(std::vector<float>(values.begin(), values.end()), tensor.values);
    EXPECT_EQ(std::vector<std::uint64_t>(array.shape.begin(), array.shape.end()), tensor.shape);
  }
  EXPECT_TRUE(archive.has("features.mean") && archive.has("features.deviation"));
  exported("weights", "weights.safetensors");
  EXPECT_EQ(read_text(path("weights.safetensors")), read_text(path("run/best.safetensors")));
}

TEST_F(Export, TheGraphHasTheSplitOfTheRun) {
  const auto all =
      run_command({"export", "--data", data_, "--what", "graph", "--to", path("all.npz")});
  ASSERT_EQ(all.code, 0) << all.err;
  EXPECT_EQ(dataset_hash(load_dataset(path("all.npz"))), dataset_hash(test::ring(60)));
  train("run", {"--split", "random:50/20/30"});
  exported("graph", "run.npz");
  const Dataset read = load_dataset(path("run.npz"));
  const Split split = make_split(test::ring(60), RandomSplit{50, 20, 30});
  ASSERT_EQ(read.splits.size(), 1);
  EXPECT_TRUE(std::ranges::equal(read.splits[0].role, split.role));
}

TEST_F(Export, APartitionTrainsAgainInEveryForm) {
  train("run", {"--parts", "3", "--partition-seed", "5"});
  const auto hash = read_json(path("run/run.json")).at("partition_hash");
  fs::create_directory(path("dgl"));
  for (const char* file : {"graph.part.3", "owners.npy", "dgl/partition_meta.json"}) {
    exported("partition", file);
    train("again", {"--parts", "3", "--partitioner", "file:" + path(file), "--overwrite"}, 1);
    EXPECT_EQ(read_json(path("again/run.json")).at("partition_hash"), hash) << file;
    refused(words("partition", file), 2, path(file).substr(0, path(file).rfind('/')));
    exported("partition", file, {"--overwrite"});
  }
  train("again", {"--parts", "3", "--partitioner", "file:" + path("graph.part.3"), "--overwrite"},
        1);
  const std::vector<std::string> again{"export",    "--run", path("again"),   "--what",
                                       "partition", "--to",  path("copy.npy")};
  std::string owners = read_text(path("graph.part.3"));
  std::ranges::reverse(owners.begin(), owners.end() - 1);
  test::write_text(path("graph.part.3"), owners);
  refused(again, 7, "graph.part.3 is not the partition of the run in");
  fs::remove(path("graph.part.3"));
  refused(again, 3, "was read from " + path("graph.part.3") + ", which does not exist");
}

TEST_F(Export, AnInterruptLeavesNoPartOfAFile) {
  ASSERT_EQ(run_command({"generate", "--nodes", "20000", "--edges", "40000", "--features", "300",
                         "--out", path("graph")})
                .code,
            0);
  const std::string file = path("graph.npz");
  int interrupted = 0;
  for (int i = 0; i < 20 && interrupted < 2; ++i) {
    const auto parts = [&] {
      return std::ranges::count_if(fs::directory_iterator(folder_.path()), [](const auto& entry) {
        return entry.path().filename().string().find(".partial-") != std::string::npos;
      });
    };
    const auto outcome = run_command(
        {"export", "--data", path("graph"), "--what", "graph", "--to", file}, [&](int child) {
          EXPECT_TRUE(test::wait_until([&] { return parts() > 0 || fs::exists(file); }, 60));
          ::kill(child, SIGINT);
        });
    EXPECT_TRUE(outcome.code == 130 || fs::exists(file)) << outcome.code << outcome.err;
    EXPECT_EQ(parts(), 0);
    interrupted += outcome.code == 130 ? 1 : 0;
    fs::remove(file);
  }
  EXPECT_GT(interrupted, 0);
}

TEST_F(Export, MistakesAreNamed) {
  train("run");
  refused(words("logits", "logits.txt"), 2,
          "logits.txt: logits are written as .csv, .npy or .safetensors");
  refused(words("weights", "weights.npy"), 2, "weights are written as .npz or .safetensors");
  refused(words("graph", "graph"), 2, "graph is written as .npz");
  refused(words("prediction", "p.csv"), 2, "--what must be predictions, logits,");
  refused({"export", "--run", path("run"), "--to", path("p.csv")}, 2, "--what is required");
  refused({"export", "--run", path("run"), "--what", "logits"}, 2, "--to is required");
  refused({"export", "--data", data_, "--what", "logits", "--to", path("l.npy")}, 2,
          "--run is required: the run whose logits are exported");
  refused({"export", "--what", "graph", "--to", path("g.npz")}, 2, "--run is required");
  refused({"export", "--run", path("ring"), "--what", "logits", "--to", path("l.npy")}, 3,
          "ring is no run directory");
  refused(words("logits", "none/logits.npy"), 2, "none is not a directory");

  exported("predictions", "p.csv");
  refused(words("predictions", "p.csv"), 2, "p.csv exists; choose another name or add --overwrite");
  exported("predictions", "p.csv", {"--overwrite"});
  test::write_text(path("notes.csv"), "my own");
  refused(words("predictions", "notes.csv", {"--overwrite"}), 2, "is not a table of nodes");
  refused(words("embeddings", "run/embeddings.npy"), 2, "is a file of the run; choose another");
  save_npz(test::ring(60), path("ring.npz"));
  refused({"export", "--data", path("ring.npz"), "--what", "graph", "--to", path("ring.npz"),
           "--overwrite"},
          2, "export never replaces a .npz file");
  refused(words("weights", "ring.npz", {"--overwrite"}), 2, "export never replaces a .npz file");

  const std::string other = test::save_ring(path("other"), 48);
  refused(words("graph", "g.npz", {"--data", other}), 7, "is not the data set of the run");
  fs::rename(data_, path("moved"));
  refused(words("graph", "g.npz"), 3, "--data PATH says where it is");
  exported("graph", "g.npz", {"--data", path("moved")});
  exported("predictions", "q.npy");  // Needs no data.
  fs::remove(path("run/best.safetensors"));
  refused(words("weights", "w.npz"), 3, "holds no best.safetensors");
  auto damaged = test::read_json(folder_ / "run" / "run.json");
  const auto refuse_damaged = [&](const char* reason) {
    test::write_text(path("run/run.json"), damaged.dump());
    refused(words("graph", "h.npz", {"--data", path("moved")}), 3, reason);
  };
  damaged["dataset"]["hash"] = 5;
  refuse_damaged("run.json: the hash of its data set is missing");
  damaged["options"]["parts"] = "many";
  refuse_damaged("run.json: --parts must be a whole number");
  damaged["options"] = {1};
  refuse_damaged("run.json is a run.json without options");
  test::write_text(path("run/run.json"), "{\"format\": ");
  refused(words("predictions", "d.npy"), 3, "run.json is not JSON: ");
}

}  // namespace
}  // namespace heliograph
