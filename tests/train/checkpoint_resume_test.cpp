#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "heliograph/checkpoint.hpp"
#include "heliograph/partition.hpp"
#include "heliograph/shards.hpp"
#include "heliograph/train.hpp"
#include "support/files.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"
#include "train/run/verification_summary.hpp"

// A run that is resumed from a checkpoint has the bits of one that was never stopped.

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using test::TemporaryDirectory;

struct Setting {
  std::string name;
  std::function<void(TrainOptions&)> change;
  bool multilabel = false, sparse = false, directed = false;
};

TrainOptions options_of(const Setting& setting) {
  TrainOptions o = test::small_options(3, 9);
  o.model.layers = 3;
  o.model.hidden = 12;
  o.model.dropout = 0.3F;
  o.partition.partitioner = Partitioner::random;
  o.transport.threads_per_rank = 1;
  o.eval_every = 2;
  setting.change(o);
  return o;
}

Dataset data_of(const Setting& s) {
  return test::make_small_dataset(120, 10, 4, 5, s.multilabel, s.sparse, s.directed);
}

/// The files of a checkpoint by name, without manifest.json and run.state, which hold times.
std::map<std::string, std::string> state_of(const fs::path& checkpoint) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    const std::string name = entry.path().filename().string();
    if (name != "manifest.json" && name != "run.state") files[name] = test::read_text(entry.path());
  }
  return files;
}

/// All but times.
std::vector<std::string> verifications_of(const TrainResult& result) {
  std::vector<std::string> all;
  for (const EpochReport& report : result.epochs) {
    if (!report.verification) continue;
    Verification verification = *report.verification;
    verification.seconds = 0;
    all.push_back(std::to_string(verification.epoch) + verification_to_json(verification).dump());
  }
  return all;
}

class Resume : public ::testing::TestWithParam<Setting> {};

TEST_P(Resume, HasTheBitsOfARunThatWasNeverStopped) {
  const Dataset data = data_of(GetParam());
  TrainOptions o = options_of(GetParam());
  const TemporaryDirectory folder;
  o.checkpoint.folder = folder / "whole";
  o.checkpoint.every = 1000;  // Saves at the end only.
  const TrainResult whole = train(data, o);
  const auto last = state_of(newest_checkpoint(folder / "whole"));

  // The run is stopped after some numbers of epochs, then resumed until it is stopped again.
  for (const int first : {1, 3, 8}) {
    const fs::path stopped = folder / ("stopped-" + std::to_string(first));
    TrainOptions part = o;
    part.checkpoint.folder = stopped;
    part.checkpoint.every = 0;
    TrainResult result;
    for (int target = first; target < o.epochs + first; target += first) {
      StopFlag stop{false};
      TrainCallbacks callbacks;
      callbacks.stop = &stop;
      std::size_t before = 0;
      callbacks.on_resume = [&](std::span<const EpochReport> reports) { before = reports.size(); };
      callbacks.on_epoch = [&](const EpochReport& report) {
        if (report.epoch + 1 >= target) stop = true;
        return EpochAction::proceed;
      };
      result = train(data, part, callbacks);
      EXPECT_EQ(before == 0, part.checkpoint.resume.empty());
      if (result.stop_reason != "interrupted") break;
      part.checkpoint.resume = newest_checkpoint(stopped);
      ASSERT_FALSE(part.checkpoint.resume.empty());
    }
    // The last part of the run was asked to stop at its last epoch, or not at all.
    if (result.stop_reason == "interrupted") result = train(data, part);
    SCOPED_TRACE("legs of " + std::to_string(first));
    test::expect_same_run(whole, result);
    EXPECT_EQ(verifications_of(result), verifications_of(whole));
    part.checkpoint.every = 1000;
    part.checkpoint.resume = newest_checkpoint(stopped);
  }

  // The checkpoint at the end of a shorter run, or of one that is stopped in its last epoch, holds
  // the same bytes as one of the longer run.
  for (const auto& [epochs, stops] : {std::pair{5, false}, {5, true}, {1, false}}) {
    const fs::path folder_of = folder / fmt::format("first {} {}", epochs, stops);
    TrainOptions half = o;
    half.epochs = epochs;
    half.checkpoint.folder = folder_of;
    TrainCallbacks callbacks;
    if (stops) {
      half.checkpoint.every = 0;
      callbacks.on_epoch = [last = epochs - 1](const EpochReport& report) {
        return report.epoch == last ? EpochAction::stop : EpochAction::proceed;
      };
    }
    train(data, half, callbacks);
    half.checkpoint.every = o.checkpoint.every;
    half.epochs = o.epochs;
    half.checkpoint.resume = newest_checkpoint(folder_of);
    SCOPED_TRACE(folder_of.filename());
    test::expect_same_run(whole, train(data, half));
    EXPECT_EQ(state_of(newest_checkpoint(folder_of)), last);
  }
}

const std::vector<Setting> settings{
    {"gcn_fp32", [](TrainOptions& o) { o.model.kind = ModelKind::gcn; }},
    {"sage_1bit",
     [](TrainOptions& o) { o.exchange.bits_forward = o.exchange.bits_backward = Bits::one; }},
    {"gcn_1bit_s1",
     [](TrainOptions& o) {
       o.model.kind = ModelKind::gcn;
       o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
       o.exchange.staleness = 1;
     }},
    {"sage_mixed_s3_sync",
     [](TrainOptions& o) {
       o.exchange.bits_forward = Bits::four;
       o.exchange.bits_backward = Bits::bf16;
       o.exchange.staleness = 3;
       o.exchange.sync_every = 5;
     }},
    {"covers_1bit_s2",
     [](TrainOptions& o) {
       o.exchange.rows = ExchangedRows::cover;
       o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
       o.exchange.staleness = 2;
     },
     false, false, true},
    {"kept_columns_2bit_s2",
     [](TrainOptions& o) {
       o.exchange.kept_columns = true;
       o.exchange.bits_forward = o.exchange.bits_backward = Bits::two;
       o.exchange.staleness = 2;
     }},
    {"auto_bits_covers_s1",
     [](TrainOptions& o) {
       o.exchange.rows = ExchangedRows::cover;
       o.exchange.auto_bits = "auto:2.5";
       o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
       o.exchange.staleness = 1;
     },
     false, false, true},
    {"lowest_backward_covers_s2",
     [](TrainOptions& o) {
       o.model.layers = 3;
       o.exchange.rows = ExchangedRows::cover;
       o.exchange.staleness = 2;
       o.exchange.stale_sites = "lowest-backward";
       o.transport.row_blocks = 2;
     }},
    {"gat_forward_s2",
     [](TrainOptions& o) {
       o.model.kind = ModelKind::gat;
       o.model.layers = 3;
       o.exchange.staleness = 2;
       o.exchange.stale_sites = "layers.2.attention.forward";
       o.verify_every = 2;
     }},
    {"sage_s2_warmup",
     [](TrainOptions& o) {
       o.exchange.staleness = 2;
       o.exchange.warmup_epochs = 3;
       o.exchange.bits_forward = Bits::eight;
     }},
    // The run has fewer epochs than S, so its ring is shorter than that of the run that resumes it.
    {"gcn_longer_lag_than_run",
     [](TrainOptions& o) {
       o.model.kind = ModelKind::gcn;
       o.exchange.staleness = 50;
       o.exchange.bits_backward = Bits::two;
     }},
    {"reproducible_s1",
     [](TrainOptions& o) {
       o.reproducible = true;
       o.exchange.staleness = 1;
       o.exchange.bits_forward = Bits::one;
     }},
    {"inductive_1bit",
     [](TrainOptions& o) {
       o.inductive = true;
       o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
       o.exchange.staleness = 1;
     }},
    {"one_rank_s2",
     [](TrainOptions& o) {
       o.partition.parts = 1;
       o.exchange.staleness = 2;
     }},
    {"bf16_residual_clip_decay",
     [](TrainOptions& o) {
       o.model.aggregate_storage = RowStorage::bf16;
       o.model.residual = Residual::identity;
       o.optimizer.clip_norm = 0.1F;
       o.optimizer.weight_decay = 1e-3F;
       o.optimizer.schedule = Schedule::step;
       o.optimizer.step_size = 2;
     }},
    {"gradients_of_4_bits_clip",
     [](TrainOptions& o) {
       o.exchange.gradient_bits = Bits::four;
       o.optimizer.clip_norm = 0.1F;
     }},
    {"recipe",
     [](TrainOptions& o) {
       o.optimizer.kind = OptimizerKind::adamw;
       o.optimizer.weight_decay = 0.1F;
       o.optimizer.lr_warmup = 3;
       o.loss = {0.1F, ClassWeights::balanced};
     }},
    {"no_precompute_s1",
     [](TrainOptions& o) {
       o.model.precompute = false;
       o.exchange.staleness = 1;
     }},
    {"gin_batch_norm_s1",
     [](TrainOptions& o) {
       o.model.kind = ModelKind::gin;
       o.model.norm = NormLayer::batch;
       o.model.eps_learned = true;
       o.exchange.staleness = 1;
       o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
     }},
    {"dagnn_s2",
     [](TrainOptions& o) {
       o.model.kind = ModelKind::dagnn;
       o.exchange.staleness = 2;
       o.exchange.bits_forward = Bits::one;
     }},
    {"gat_s2",
     [](TrainOptions& o) {
       o.model.kind = ModelKind::gat;
       o.model.attention_dropout = 0.3F;
       o.exchange.staleness = 2;
       o.exchange.warmup_epochs = 3;
       o.exchange.bits_forward = Bits::one;
       o.exchange.bits_backward = Bits::four;
     }},
    {"gatv2_s2",
     [](TrainOptions& o) {
       o.model.kind = ModelKind::gatv2;
       o.model.attention_dropout = 0.3F;
       o.exchange.staleness = 2;
       o.exchange.bits_forward = o.exchange.bits_backward = Bits::eight;
     }},
    {"multilabel_s1", [](TrainOptions& o) { o.exchange.staleness = 1; }, true},
    {"sparse_directed_s1",
     [](TrainOptions& o) {
       o.exchange.staleness = 1;
       o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
     },
     false, true, true},
};

INSTANTIATE_TEST_SUITE_P(Runs, Resume, ::testing::ValuesIn(settings),
                         [](const auto& tested) { return tested.param.name; });

TEST(ResumeEnds, TheExchangeStaysWhatAutoTook) {
  const Dataset data = test::make_small_dataset(120, 10, 4, 5);
  TrainOptions o = test::small_options(3, 8);
  o.model.layers = 3;
  o.model.dropout = 0.4F;
  o.exchange.rows = ExchangedRows::automatic;
  o.exchange.staleness = 1;
  o.exchange.bits_forward = Bits::one;
  const TemporaryDirectory folder;
  o.checkpoint.folder = folder / "c";
  o.checkpoint.every = 5;
  o.transport.link_gbps = 0.05;
  const TrainResult whole = train(data, o);
  ASSERT_TRUE(whole.covers && whole.kept_columns);
  const Partition partition = make_partition(data.graph, o.partition);
  write_shards(data, partition, o, folder / "shards");
  o.transport.link_gbps = 1e6;  // A new run takes boundaries and all columns.
  TrainOptions other = o;
  other.checkpoint = {};
  const TrainResult fast = train(data, other);
  EXPECT_FALSE(fast.covers || fast.kept_columns);
  o.checkpoint.resume = folder / "c" / "epoch-000005";
  const TrainResult resumed = train(data, o);
  EXPECT_TRUE(resumed.covers && resumed.kept_columns);
  test::expect_same_run(whole, resumed);
  test::expect_same_run(whole, train_shards(folder / "shards", o));
}

TEST(ResumeEnds, PatienceCountsOn) {
  const Dataset data = test::make_small_dataset(120, 10, 4, 5);
  TrainOptions o = test::small_options(2, 200);
  o.eval_every = 2;
  o.patience = 4;
  const TrainResult whole = train(data, o);
  ASSERT_EQ(whole.stop_reason, "early_stopping");
  const int last = static_cast<int>(whole.epochs.size());
  ASSERT_GT(last, 4);
  // Resumes while patience counts, and after it has run out.
  for (const int epochs : {last - 3, last}) {
    const TemporaryDirectory folder;
    TrainOptions part = o;
    part.checkpoint.folder = folder / "c";
    part.checkpoint.every = epochs;
    if (epochs < last) part.epochs = epochs;
    train(data, part);
    part.epochs = o.epochs;
    part.checkpoint.resume = newest_checkpoint(folder / "c");
    test::expect_same_run(whole, train(data, part));
  }
}

TEST(ResumeEnds, AucScoresAreKept) {
  const Dataset data = test::make_small_dataset(150, 10, 2, 5);
  TrainOptions o = test::small_options(2, 8);
  o.metric = Metric::auc;
  const TrainResult whole = train(data, o);
  ASSERT_FALSE(whole.scores.empty());
  const TemporaryDirectory folder;
  o.checkpoint.folder = folder / "c";
  o.checkpoint.every = 6;
  train(data, o);
  o.checkpoint.resume = folder / "c" / "epoch-000006";
  test::expect_same_run(whole, train(data, o));
}

TEST(ResumeEnds, AFinishedRunGivesItsResultAgain) {
  const Dataset data = test::make_small_dataset(120, 10, 4, 5);
  TrainOptions o = test::small_options(2, 5);
  o.eval_every = 2;  // The last epoch is evaluated only because it is the last.
  const TemporaryDirectory folder;
  o.checkpoint.folder = folder / "c";
  o.checkpoint.every = 2;
  const TrainResult whole = train(data, o);
  o.checkpoint.resume = newest_checkpoint(folder / "c");
  EXPECT_EQ(o.checkpoint.resume.filename(), "epoch-000005");
  bool told = false;
  TrainCallbacks callbacks;
  callbacks.on_resume = [&](std::span<const EpochReport> reports) {
    told = true;
    ASSERT_EQ(reports.size(), 5U);
    EXPECT_TRUE(reports[4].val_metric.has_value());
  };
  callbacks.on_epoch = [](const EpochReport&) {
    ADD_FAILURE() << "an epoch ran";
    return EpochAction::stop;
  };
  test::expect_same_run(whole, train(data, o, callbacks));
  EXPECT_TRUE(told);
}

TEST(Saving, KeepsTheLastTwoAndSavesOnDemand) {
  const Dataset data = test::make_small_dataset(120, 10, 4, 5);
  TrainOptions o = test::small_options(2, 10);
  const TemporaryDirectory folder;
  o.checkpoint.folder = folder / "deep" / "c";
  o.checkpoint.every = 3;
  SaveFlag save{false};
  TrainCallbacks callbacks;
  callbacks.save = &save;
  std::vector<std::string> seen;
  callbacks.on_epoch = [&](const EpochReport& report) {
    if (report.epoch == 6) save = true;  // The checkpoint is saved after epoch 7.
    std::string names;
    for (const auto& entry : fs::directory_iterator(folder.path() / "deep/c")) {
      names += entry.path().filename().string() + " ";
    }
    if (report.epoch >= 8) seen.push_back(names);
    return EpochAction::proceed;
  };
  fs::create_directories(o.checkpoint.folder);
  const TrainResult result = train(data, o, callbacks);
  EXPECT_EQ(result.stop_reason, "completed");
  EXPECT_FALSE(save.load());
  EXPECT_EQ(newest_checkpoint(o.checkpoint.folder).filename(), "epoch-000010");
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(o.checkpoint.folder)) {
    ++count;
    EXPECT_NO_THROW(verify_checkpoint(entry.path()));
  }
  EXPECT_EQ(count, 2U);
  const CheckpointInfo info = read_checkpoint(newest_checkpoint(o.checkpoint.folder));
  EXPECT_EQ(info.epochs, 10);
  EXPECT_EQ(info.options.checkpoint.every, o.checkpoint.every);
  EXPECT_TRUE(info.options.checkpoint.folder.empty());
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_NE(seen[0].find("epoch-000008"), std::string::npos) << seen[0];
}

TEST(Saving, ChangesNoBit) {
  const Dataset data = test::make_small_dataset(120, 10, 4, 5);
  for (const int staleness : {0, 2}) {
    TrainOptions o = test::small_options(3, 8);
    o.exchange.staleness = staleness;
    o.exchange.bits_forward = Bits::one;
    const TrainResult plain = train(data, o);
    const TemporaryDirectory folder;
    o.checkpoint.folder = folder / "c";
    o.checkpoint.every = 1;
    test::expect_same_run(plain, train(data, o));
  }
}

}  // namespace
}  // namespace heliograph
