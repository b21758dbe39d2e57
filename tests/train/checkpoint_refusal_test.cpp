#include <gtest/gtest.h>

#include <string>

#include "heliograph/checkpoint.hpp"
#include "heliograph/train.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"
#include "train/checkpoint/folder.hpp"

// A checkpoint that is damaged or belongs to another run is refused by name.

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using test::read_text;
using test::TemporaryDirectory;
using test::write_text;

/// A run with two checkpoints that are small enough to damage each byte in turn.
class Refusal : public ::testing::Test {
 protected:
  Refusal() {
    options_.model.hidden = 3;
    options_.exchange.staleness = 1;
    options_.exchange.bits_forward = Bits::one;
    options_.checkpoint.folder = folder_ / "c";
    options_.checkpoint.every = 2;
    train(data_, options_);
  }

  fs::path newest() const { return options_.checkpoint.folder / "epoch-000004"; }
  fs::path older() const { return options_.checkpoint.folder / "epoch-000002"; }

  /// The error message for the newest checkpoint when its `file` holds `bytes` instead.
  std::string refusal(const std::string& file, const std::string& bytes) const {
    const std::string whole = read_text(newest() / file);
    const std::string said = refusal_once(file, bytes);
    write_text(newest() / file, whole);
    return said;
  }
  /// The same, and leaves the damaged file.
  std::string refusal_once(const std::string& file, const std::string& bytes) const {
    write_text(newest() / file, bytes);
    return test::expect_error(ErrorCode::bad_input, "", [&] { verify_checkpoint(newest()); });
  }
  /// So that no refusal reads it, to say whether it is whole.
  void remove_older() const { fs::remove_all(older()); }

  TemporaryDirectory folder_;
  Dataset data_ = test::make_small_dataset(20, 2, 2, 5);
  TrainOptions options_ = test::small_options(2, 4);
};

const char* const kFiles[] = {"manifest.json", "weights.safetensors", "best.safetensors",
                              "run.state",     "rank-00000.state",    "rank-00001.state"};

TEST_F(Refusal, EveryTruncationIsRefusedByFile) {
  ASSERT_NO_THROW(verify_checkpoint(newest()));
  remove_older();
  for (const std::string file : kFiles) {
    const std::string whole = read_text(newest() / file);
    ASSERT_LT(whole.size(), 8192U);
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
      const std::string said = refusal_once(file, whole.substr(0, bytes));
      ASSERT_NE(said.find(file), std::string::npos) << said;
    }
    ASSERT_NE(refusal_once(file, whole + "x").find(file), std::string::npos);
    write_text(newest() / file, whole);
  }
  ASSERT_NO_THROW(verify_checkpoint(newest()));
}

TEST_F(Refusal, EveryFlippedBitOfEveryByteIsRefusedByFileAndField) {
  remove_older();
  for (const std::string file : kFiles) {
    const std::string whole = read_text(newest() / file);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
      const std::string said = refusal_once(file, damaged);
      ASSERT_NE(said.find(file), std::string::npos) << said;
      const bool names_field =
          said.find("field ") != std::string::npos || said.find("section") != std::string::npos ||
          said.find("tensor") != std::string::npos || said.find("header") != std::string::npos;
      ASSERT_TRUE(names_field) << "byte " << i << ": " << said;
    }
    write_text(newest() / file, whole);
  }
}

TEST_F(Refusal, NamesTheFieldAndOffersTheOneBefore) {
  const auto flipped = [&](const std::string& file, const std::string& after, std::size_t by) {
    std::string bytes = read_text(newest() / file);
    const std::size_t at = bytes.find(after);
    EXPECT_NE(at, std::string::npos) << after;
    bytes.at(at + by) = static_cast<char>(bytes.at(at + by) ^ 1);
    return refusal(file, bytes);
  };
  const std::string halo = flipped("rank-00001.state", "halo.layers.1.forward.3", 24);
  EXPECT_NE(halo.find("rank-00001.state: field halo.layers.1.forward.3 is damaged"),
            std::string::npos)
      << halo;
  EXPECT_NE(halo.find("the checkpoint before it is whole: " + older().string()), std::string::npos)
      << halo;
  const std::string moment = flipped("rank-00001.state", "second_moments", 33);
  EXPECT_NE(moment.find("field second_moments is damaged"), std::string::npos) << moment;
  std::string weights = read_text(newest() / "weights.safetensors");
  weights.back() = static_cast<char>(weights.back() ^ 1);
  EXPECT_NE(refusal("weights.safetensors", weights).find("tensor layers.1.bias is damaged"),
            std::string::npos);
}

TEST_F(Refusal, AMissingOrExchangedFileIsRefused) {
  for (const std::string file : kFiles) {
    const fs::path path = newest() / file;
    fs::rename(path, folder_ / "away");
    test::expect_error(ErrorCode::bad_input, file, [&] { verify_checkpoint(newest()); });
    fs::copy_file(older() / file, path);
    if (read_text(path) != read_text(folder_ / "away") && file != std::string("manifest.json")) {
      test::expect_error(ErrorCode::bad_input, file, [&] { verify_checkpoint(newest()); });
    }
    fs::remove(path);
    fs::rename(folder_ / "away", path);
  }
  ASSERT_NO_THROW(verify_checkpoint(newest()));
}

TEST_F(Refusal, ADamagedCheckpointEndsTheRunBeforeItBegins) {
  std::string bytes = read_text(newest() / "run.state");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  write_text(newest() / "run.state", bytes);
  options_.checkpoint.resume = newest();
  options_.epochs = 6;
  test::expect_error(ErrorCode::bad_input, older().string(), [&] { train(data_, options_); });
  options_.checkpoint.resume = older();
  EXPECT_EQ(train(data_, options_).epochs.size(), 6U);
}

TEST_F(Refusal, OptionsThatChangeNumbersMustAgree) {
  options_.checkpoint.resume = older();
  const auto refused = [&](auto change, const char* flag) {
    TrainOptions o = options_;
    change(o);
    test::expect_error(ErrorCode::mismatch, flag, [&] { train(data_, o); });
  };
  refused([](auto& o) { o.exchange.bits_forward = Bits::two; }, ": bits-forward is 2");
  refused([](auto& o) { o.seed = 9; }, "seed");
  refused([](auto& o) { o.model.hidden = 4; }, "hidden");
  refused([](auto& o) { o.exchange.staleness = 0; }, "staleness");
  refused([](auto& o) { o.reproducible = true; }, "reproducible");
  refused([](auto& o) { o.eval_every = 3; }, "eval-every");
  refused([](auto& o) { o.partition.parts = 3; }, "parts");
  refused([](auto& o) { o.node_order = NodeOrder::random; }, "node-order");
  refused([](auto& o) { o.optimizer.lr = 0.5F; }, "lr");
  refused([](auto& o) { o.optimizer.lr_warmup = 1; }, "lr-warmup");
  refused([](auto& o) { o.optimizer.kind = OptimizerKind::adamw; }, "optimizer");
  refused([](auto& o) { o.loss.label_smoothing = 0.5F; }, "label-smoothing");
  refused([](auto& o) { o.loss.class_weights = ClassWeights::balanced; }, "class-weights");
  refused([](auto& o) { o.init_from = "S"; },
          "init-from is \"S\", but the checkpoint was made without it");
  refused([](auto& o) { o.optimizer.lr = 0.5; }, "--init-from begins a new run from its weights");
  refused([](auto& o) { o.epochs = 1; }, "epochs is 1");
  refused([](auto& o) { o.partition.partitioner = Partitioner::random; }, "partition's hash");
  const Dataset other = test::make_small_dataset(20, 2, 2, 6);
  test::expect_error(ErrorCode::mismatch, "data set", [&] { train(other, options_); });
}

TEST_F(Refusal, OptionsThatDecideSpeedOrTheEndMayDiffer) {
  options_.checkpoint.resume = older();
  const TrainResult same = train(data_, options_);
  options_.epochs = 7;
  options_.patience = 100;
  options_.transport.threads_per_rank = 2;
  options_.transport.link_gbps = 10;
  options_.transport.timeout_seconds = 60;
  options_.checkpoint.every = 5;
  const TrainResult longer = train(data_, options_);
  ASSERT_EQ(longer.epochs.size(), 7U);
  for (std::size_t e = 0; e < same.epochs.size(); ++e) {
    EXPECT_EQ(longer.epochs[e].loss, same.epochs[e].loss);
  }
}

TEST_F(Refusal, TheWeightsThatARunBeganWithNeedNotBeNamedAgain) {
  TrainOptions o = options_;
  o.init_from = older();
  o.checkpoint.folder = folder_ / "tuned";
  const TrainResult whole = train(data_, o);
  o.checkpoint.resume = o.checkpoint.folder / "epoch-000002";
  o.init_from.clear();
  EXPECT_EQ(train(data_, o).epochs.back().loss, whole.epochs.back().loss);
  o.init_from = newest();
  test::expect_error(ErrorCode::mismatch, "init-from is", [&] { train(data_, o); });
}

TEST_F(Refusal, ACosineScheduleKeepsItsEpochs) {
  TrainOptions o = options_;
  o.optimizer.schedule = Schedule::cosine;
  o.checkpoint.folder = folder_ / "cosine";
  const TrainResult whole = train(data_, o);
  o.checkpoint.resume = o.checkpoint.folder / "epoch-000002";
  EXPECT_EQ(train(data_, o).epochs.back().loss, whole.epochs.back().loss);
  o.epochs = 8;
  test::expect_error(ErrorCode::mismatch, "schedule cosine", [&] { train(data_, o); });
}

TEST(CheckpointFolder, ThatCannotBeReadIsNotTakenForAnEmptyOne) {
  const TemporaryDirectory folder;
  EXPECT_TRUE(list_checkpoints(folder.path() / "none").empty());
  fs::create_symlink("loop", folder.path() / "loop");  // Root may read the others.
  test::expect_error(ErrorCode::bad_input, "cannot read",
                     [&] { list_checkpoints(folder.path() / "loop"); });
}

}  // namespace
}  // namespace heliograph
