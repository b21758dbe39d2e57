#include "heliograph/shards.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "graph/io/manifest_file.hpp"
#include "heliograph/error.hpp"
#include "heliograph/io.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/graphs.hpp"
#include "train/plan/shard_plan.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

struct ShardCase {
  const char* name;
  bool sparse = false, directed = false, inductive = false, multilabel = false, weighted = false;
  bool covers = false;
};

Dataset dataset_of(const ShardCase& c) {
  Dataset data = test::make_small_dataset(160, 12, 3, 7, c.multilabel, c.sparse, c.directed);
  return c.weighted ? test::with_weights(std::move(data)) : data;
}

TrainOptions shard_options(const ShardCase& c) {
  TrainOptions o;
  o.model.layers = 2;
  o.model.hidden = 16;
  o.epochs = 4;
  o.split = RandomSplit();
  o.inductive = c.inductive;
  o.normalize = c.sparse ? Normalization::row : Normalization::standard;
  if (!c.multilabel) o.loss.class_weights = ClassWeights::balanced;
  o.partition.parts = 3;
  o.exchange.bits_forward = o.exchange.bits_backward = Bits::two;
  o.exchange.staleness = 1;
  o.exchange.stale_sites = "all";
  if (c.covers) o.exchange.rows = ExchangedRows::automatic;
  return o;
}

void write(const Dataset& dataset, const TrainOptions& options, const fs::path& directory,
           bool overwrite = false) {
  // Inductive training balances training nodes as well.
  PartitionOptions cut = options.partition;
  const Split split = make_split(dataset, options.split);
  cut.balance_train = options.inductive;
  write_shards(dataset, make_partition(dataset.graph, cut, {}, &split), options, directory,
               overwrite);
}

class Shards : public ::testing::TestWithParam<ShardCase> {};

TEST_P(Shards, TrainToTheSameBits) {
  const Dataset dataset = dataset_of(GetParam());
  const TrainOptions options = shard_options(GetParam());
  const test::TemporaryDirectory directory;
  const fs::path shards = directory.path() / "shards";
  write(dataset, options, shards);
  ASSERT_TRUE(is_shards(shards));

  // Options that are fixed in the shards come from their manifest.
  TrainOptions others = options;
  others.partition.parts = 1;
  others.split = GivenSplit();
  others.inductive = false;
  others.normalize = Normalization::none;
  const TrainResult expected = train(dataset, options);
  const TrainResult got = train_shards(shards, others);
  ASSERT_EQ(got.epochs.size(), expected.epochs.size());
  for (std::size_t e = 0; e < got.epochs.size(); ++e) {
    EXPECT_EQ(got.epochs[e].loss, expected.epochs[e].loss) << e;
    EXPECT_EQ(got.epochs[e].val_metric, expected.epochs[e].val_metric) << e;
    EXPECT_EQ(got.epochs[e].test_metric, expected.epochs[e].test_metric) << e;
  }
  EXPECT_EQ(got.predictions, expected.predictions);
  EXPECT_EQ(got.bytes_per_epoch.halo_forward, expected.bytes_per_epoch.halo_forward);
  EXPECT_EQ(got.partition_hash, expected.partition_hash);
  EXPECT_EQ(got.partition.halo_nodes, expected.partition.halo_nodes);
}

INSTANTIATE_TEST_SUITE_P(
    Graphs, Shards,
    ::testing::Values(ShardCase{"dense"}, ShardCase{"sparse", true},
                      ShardCase{"directed", false, true}, ShardCase{"inductive", true, true, true},
                      ShardCase{"multilabel", false, false, false, true},
                      ShardCase{"weighted", false, false, false, false, true},
                      ShardCase{"weighted_inductive", true, true, true, false, true},
                      ShardCase{"covers", true, false, true, false, true, true},
                      ShardCase{"directed_covers", false, true, false, false, false, true}),
    [](const auto& test) { return std::string(test.param.name); });

void expect_refused(ErrorCode code, const fs::path& shards, const std::string& what) {
  SCOPED_TRACE(what);
  test::expect_error(code, "", [&] { train_shards(shards, shard_options({"any"})); });
}

TEST(ShardFiles, NegativeWeightsAreRefusedByModel) {
  const test::TemporaryDirectory directory;
  const fs::path shards = directory.path() / "shards";
  Dataset data = dataset_of({"any"});
  data.graph.edge_weights =
      std::vector<float>(static_cast<std::size_t>(data.graph.entries()), -0.5F);
  TrainOptions options = shard_options({"any"});
  options.model.kind = ModelKind::gin;
  write(data, options, shards);
  EXPECT_NO_THROW(train_shards(shards, options));
  for (const ModelKind kind : {ModelKind::gcn, ModelKind::sage, ModelKind::appnp}) {
    options.model.kind = kind;
    test::expect_error(ErrorCode::bad_input, "has the weight -0.5, and model",
                       [&] { train_shards(shards, options); });
  }
}

TEST(ShardFiles, DamageIsRefusedByFile) {
  const test::TemporaryDirectory directory;
  const fs::path shards = directory.path() / "shards";
  ShardCase weighted{"any"};
  weighted.weighted = true;
  write(dataset_of(weighted), shard_options({"any"}), shards);
  for (const char* name : {"rank-0000.shard", "rank-0002.shard", "manifest.json"}) {
    const std::string whole = test::read_text(shards / name);
    for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / 60) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ 0x10);
      test::write_text(shards / name, changed);
      const bool in_header = name[0] == 'r' && at >= 8 && at < 24;
      expect_refused(in_header ? ErrorCode::mismatch : ErrorCode::bad_input, shards,
                     name + (" " + std::to_string(at)));
      test::write_text(shards / name, whole.substr(0, at));
      expect_refused(ErrorCode::bad_input, shards, name + (" cut to " + std::to_string(at)));
    }
    test::write_text(shards / name, whole);
  }
  EXPECT_NO_THROW(train_shards(shards, shard_options({"any"})));
}

TEST(ShardFiles, FactsThatContradictEachOtherAreRefused) {
  const test::TemporaryDirectory directory;
  const fs::path shards = directory.path() / "shards";
  write(dataset_of({"any"}), shard_options({"any"}), shards);
  using nlohmann::ordered_json;
  const auto whole = ordered_json::parse(test::read_text(shards / "manifest.json"));
  const auto refused = [&](const char* pointer, const ordered_json& value, const char* part) {
    ordered_json changed = whole;
    changed[ordered_json::json_pointer(pointer)] = value;
    write_manifest_file(shards, changed);
    test::expect_error(ErrorCode::bad_input, {"manifest.json", part},
                       [&] { train_shards(shards, shard_options({"any"})); });
  };
  constexpr const char* kContradict = "its numbers contradict each other";
  refused("/nodes", 0, kContradict);
  refused("/nodes", 161, kContradict);
  refused("/training_nodes", -1, kContradict);
  refused("/training_of_class/0", -1, kContradict);
  refused("/features/cols", 11, kContradict);
  refused("/labels/classes", -1, kContradict);
  refused("/statistics/mean", {0.5, 0.5}, kContradict);
  refused("/statistics/deviation", ordered_json::array(), kContradict);
  refused("/labels/task", "multi", "unknown task multi");
  write_manifest_file(shards, whole);
  EXPECT_NO_THROW(train_shards(shards, shard_options({"any"})));
}

TEST(ShardFiles, OfOtherShardsAreRefusedAsSuch) {
  const test::TemporaryDirectory directory;
  const fs::path one = directory.path() / "one";
  const fs::path other = directory.path() / "other";
  TrainOptions options = shard_options({"any"});
  write(dataset_of({"any"}), options, one);
  options.split = RandomSplit{.seed = 8};
  write(dataset_of({"any"}), options, other);
  const auto replace = fs::copy_options::overwrite_existing;
  fs::copy_file(other / "rank-0001.shard", one / "rank-0001.shard", replace);
  expect_refused(ErrorCode::mismatch, one, "another split");
  fs::copy_file(other / "rank-0001.shard", other / "rank-0002.shard", replace);
  expect_refused(ErrorCode::mismatch, other, "another rank");
}

// Each host may cut its own shards of one partition.
TEST(ShardFiles, OfOnePartitionBelongTogetherHoweverTheyWereCut) {
  const Dataset dataset = dataset_of({"any"});
  TrainOptions options = shard_options({"any"});
  const Partition partition = make_partition(dataset.graph, options.partition);
  const test::TemporaryDirectory directory;
  const auto manifest_of = [&](const char* name) {
    write_shards(dataset, partition, options, directory / name);
    return nlohmann::ordered_json::parse(test::read_text(directory / name / "manifest.json"));
  };
  const auto one = manifest_of("one");
  options.partition.partitioner = Partitioner::file;
  options.partition.file = "owners";
  const auto other = manifest_of("other");
  EXPECT_EQ(one.at("identity"), other.at("identity"));
  EXPECT_EQ(one.at("ranks"), other.at("ranks"));
  EXPECT_EQ(other.at("cut").at("partitioner"), "file:" + fs::absolute("owners").string());
}

TEST(ShardFiles, AndGraphsAreToldApart) {
  const test::TemporaryDirectory directory;
  const Dataset dataset = dataset_of({"any"});
  write(dataset, shard_options({"any"}), directory.path() / "shards");
  save_native(dataset, directory.path() / "graph");
  test::expect_error(ErrorCode::bad_input,
                     "is the manifest of shards, not of a graph; train and eval take them",
                     [&] { load_dataset(directory.path() / "shards"); });
  test::expect_error(ErrorCode::bad_input, "is the manifest of a graph, not of shards;",
                     [&] { train_shards(directory.path() / "graph", shard_options({"any"})); });
}

TEST(ShardFiles, ReplaceOnlyShardsAndOnlyIfAsked) {
  const test::TemporaryDirectory directory;
  const Dataset dataset = dataset_of({"any"});
  const fs::path shards = directory.path() / "shards";
  write(dataset, shard_options({"any"}), shards);
  EXPECT_THROW(write(dataset, shard_options({"any"}), shards), Error);
  EXPECT_NO_THROW(write(dataset, shard_options({"any"}), shards, true));
  fs::create_directory(directory.path() / "mine");
  test::write_text(directory.path() / "mine" / "letter", "keep me");
  EXPECT_THROW(write(dataset, shard_options({"any"}), directory.path() / "mine", true), Error);
  EXPECT_EQ(test::read_text(directory.path() / "mine" / "letter"), "keep me");
  fs::create_directory(shards / "run");
  test::write_text(shards / "run" / "metrics.jsonl", "mine too");
  EXPECT_THROW(write(dataset, shard_options({"any"}), shards, true), Error);
  EXPECT_EQ(test::read_text(shards / "run" / "metrics.jsonl"), "mine too");
}

}  // namespace
}  // namespace heliograph
