#include "core/cpu/aggregate.hpp"

#include <gtest/gtest.h>

namespace heliograph {
namespace {

TEST(Aggregate, InnerByHand) {
  ThreadPool threads(1);
  const Csr csr{{0, 2, 2, 3}, {1, 2, 0}};
  const float x[6] = {1, 2, 3, 4, 5, 6};
  const float col_scale[3] = {1, 2, 3};
  const float row_scale[3] = {1, 10, 0.5F};
  float out[6] = {};
  cpu::aggregate_inner(csr.view(), {x, 3, 2, 2, {}}, col_scale, true, row_scale,
                       {out, 3, 2, 2, {}}, {}, threads);
  const float expected[6] = {1 + 6 + 15, 2 + 8 + 18, 60, 80, 8, 10};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(out[i], expected[i]) << i;
}

}  // namespace
}  // namespace heliograph
