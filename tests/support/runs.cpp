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

void expect_same_numbers(const TrainResult& a, const TrainResult& b) {
  ASSERT_EQ(a.epochs.size(), b.epochs.size());
  for (std::size_t e = 0; e < a.epochs.size(); ++e) {
    EXPECT_EQ(a.epochs[e].loss, b.epochs[e].loss) << e;
    EXPECT_EQ(a.epochs[e].test_metric, b.epochs[e].test_metric) << e;
    EXPECT_EQ(a.epochs[e].fp32_bytes, b.epochs[e].fp32_bytes) << e;
  }
  EXPECT_EQ(a.model->tensors, b.model->tensors);
  EXPECT_EQ(a.predictions, b.predictions);
}

}  // namespace heliograph::test
