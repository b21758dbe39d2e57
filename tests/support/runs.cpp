#include "support/runs.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "layers/compose.hpp"
#include "support/expect_error.hpp"
#include "train/options/values.hpp"

namespace heliograph::test {

TrainOptions small_options(int ranks, int epochs) {
  TrainOptions o;
  o.model.layers = 2;
  o.model.hidden = 16;
  o.model.dropout = 0.2F;
  o.epochs = epochs;
  o.partition.parts = ranks;
  o.partition.partitioner = Partitioner::contiguous;
  o.exchange.stale_sites = "all";
  return o;
}

TrainOptions one_bit_options(ModelKind kind, int epochs) {
  TrainOptions o = small_options(3, epochs);
  o.model.kind = kind;
  o.model.layers = 3;
  o.model.hidden = 40;
  o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
  return o;
}

Bits bits_for(ModelKind kind, Bits wanted) {
  ModelOptions model;
  model.kind = kind;
  return std::max(wanted, fewest_bits(model));
}

std::string name_of(ModelKind kind) {
  std::string name = choice_name(kind);
  std::ranges::replace(name, '-', '_');
  return name;
}

std::vector<ModelKind> all_models() {
  std::vector<ModelKind> all;
  for (const auto& [name, kind] : enum_names<ModelKind>) all.push_back(kind);
  return all;
}

void expect_same_numbers(const TrainResult& a, const TrainResult& b) {
  ASSERT_EQ(a.epochs.size(), b.epochs.size());
  for (std::size_t e = 0; e < a.epochs.size(); ++e) {
    const EpochReport &x = a.epochs[e], &y = b.epochs[e];
    EXPECT_EQ(x.epoch, y.epoch);
    EXPECT_EQ(x.loss, y.loss) << "epoch " << e;
    EXPECT_EQ(x.train_metric, y.train_metric) << "epoch " << e;
    EXPECT_EQ(x.val_metric, y.val_metric) << "epoch " << e;
    EXPECT_EQ(x.test_metric, y.test_metric) << "epoch " << e;
    EXPECT_EQ(x.fp32_bytes, y.fp32_bytes) << "epoch " << e;
    EXPECT_EQ(x.lag, y.lag) << "epoch " << e;
    EXPECT_EQ(x.lr, y.lr) << "epoch " << e;
  }
  EXPECT_EQ(a.stop_reason, b.stop_reason);
  EXPECT_EQ(a.best_epoch, b.best_epoch);
  EXPECT_EQ(a.val_metric, b.val_metric);
  EXPECT_EQ(a.test_metric, b.test_metric);
  EXPECT_EQ(a.predictions, b.predictions);
  EXPECT_EQ(a.scores, b.scores);
  ASSERT_TRUE(a.model && b.model);
  EXPECT_EQ(a.model->epoch, b.model->epoch);
  EXPECT_EQ(a.model->tensors, b.model->tensors);
}

void expect_same_run(const TrainResult& a, const TrainResult& b) {
  expect_same_numbers(a, b);
  ASSERT_EQ(a.epochs.size(), b.epochs.size());
  for (std::size_t e = 0; e < a.epochs.size(); ++e) {
    EXPECT_EQ(a.epochs[e].bytes.total(), b.epochs[e].bytes.total()) << "epoch " << e;
  }
  EXPECT_EQ(a.bytes_per_epoch.total(), b.bytes_per_epoch.total());
  EXPECT_EQ(a.evaluation_bytes, b.evaluation_bytes);
  ASSERT_EQ(a.halo_traffic.size(), b.halo_traffic.size());
  for (std::size_t i = 0; i < a.halo_traffic.size(); ++i) {
    EXPECT_EQ(a.halo_traffic[i].bytes, b.halo_traffic[i].bytes);
    EXPECT_EQ(a.halo_traffic[i].fp32_bytes, b.halo_traffic[i].fp32_bytes);
  }
}

}  // namespace heliograph::test
