#include "support/runs.hpp"

#include <gtest/gtest.h>

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

std::string name_of(ModelKind kind) { return kind == ModelKind::gcn ? "gcn" : "sage"; }

std::string message_of(const std::function<void()>& action, ErrorCode code) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace heliograph::test
