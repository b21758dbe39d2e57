#include <gtest/gtest.h>

#include <optional>

#include "heliograph/train.hpp"
#include "support/expect_error.hpp"
#include "support/graphs.hpp"
#include "train/plan/memory_check.hpp"
#include "train/plan/memory_needs.hpp"

// The memory that the host of devices needs is known before a run.

namespace heliograph {
namespace {

TEST(LeastHostMemory, IsStructureAndFeaturesOrWhatComesAfterThem) {
  // 3000 nodes; 50 columns are padded to 64, 7 classes to 16.
  const Dataset wide = test::make_small_dataset(3000, 50, 7, 3);
  TrainOptions o;
  o.model.layers = 4;
  o.partition.parts = 3;
  o.partition.partitioner = Partitioner::random;
  o.epochs = 3;
  o.eval_every = 0;
  o.model.hidden = 16;
  const std::int64_t structure =
      4 * wide.graph.entries() + 16 * 3000 + (8 + 8 + 2 + 8 + 4) * 3000 + 4 * 1000;
  MemoryNeeds needs = least_host_memory(wide, o, 0, 1000);
  EXPECT_EQ(needs[MemoryUse::graph], structure);
  EXPECT_EQ(needs[MemoryUse::features], 3000 * 64 * 4);
  EXPECT_EQ(needs.total(), structure + 3000 * 64 * 4);
  const std::string of_data = "the data set asks for a machine with more memory";
  test::expect_error(ErrorCode::resource, of_data, [&] { require_host_memory(needs, 1); });

  o.model.hidden = 1000;
  needs = least_host_memory(wide, o, 0, 1000);
  test::expect_error(ErrorCode::resource, "lower hidden, layers or parts",
                     [&] { require_host_memory(needs, 1); });
  o.checkpoint.resume = "epoch-000001";
  test::expect_error(ErrorCode::resource, "a resumed run cannot use less",
                     [&] { require_host_memory(least_host_memory(wide, o, 0, 1000), 1); });
  o.checkpoint.resume.clear();
  const std::int64_t weights = train(wide, o).parameters;
  EXPECT_EQ(needs[MemoryUse::features], 0);
  EXPECT_GE(needs[MemoryUse::weights], weights * 4 * 3) << "each rank draws its initial weights";
  EXPECT_EQ(needs.total(), structure + needs[MemoryUse::weights]) << "nothing else passes the host";
  o.eval_every = 2;  // Each rank then keeps the best weights while it scores.
  EXPECT_EQ(least_host_memory(wide, o, 0, 1000).total(), needs.total() + 3000 * 16 * 4);
  o.eval_every = 0;

  o.exchange.gradient_bits = Bits::eight;  // Gradients then need more memory than features.
  needs = least_host_memory(wide, o, 0, 1000);
  EXPECT_EQ(needs[MemoryUse::features], 0);
  EXPECT_EQ(needs[MemoryUse::evaluation], 3000 * 16 * 4);
  EXPECT_GE(needs[MemoryUse::gradients], weights * (4 + 1 + 2) * 3) << "copies, codes and sums";
  EXPECT_LE(needs[MemoryUse::gradients], weights * 8 * 3);

  o.inductive = true;
  needs = least_host_memory(wide, o, 500, std::nullopt);
  EXPECT_EQ(needs[MemoryUse::graph], 16 * 500 + (8 + 8 + 2 + 8 + 4) * 500);
  EXPECT_EQ(needs[MemoryUse::evaluation], structure - 4 * 1000 + 3000 * 16 * 4);

  o.inductive = false;
  o.partition.parts = 1;  // A single rank sums nothing.
  const std::int64_t of_integers = least_host_memory(wide, o, 0, 0).total();
  o.exchange.gradient_bits = Bits::fp32;
  EXPECT_EQ(of_integers, least_host_memory(wide, o, 0, 0).total());
}

TEST(RequireHostMemory, NamesTheHost) {
  constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;
  MemoryNeeds needs;
  needs[MemoryUse::graph] = 5 * kGibibyte;
  needs[MemoryUse::features] = 6 * kGibibyte;
  needs.remedies = {.bits = false,
                    .staleness = false,
                    .partitioner = false,
                    .hidden = false,
                    .layers = false,
                    .parts = false};
  EXPECT_EQ(test::expect_error(ErrorCode::resource, "",
                               [&] { require_host_memory(needs, 2 * kGibibyte); }),
            "the host of the CUDA devices needs at least 11.0 GiB (6.0 GiB for features, 5.0 GiB "
            "for graph) and has 2.0 GiB available: the data set asks for a machine with more "
            "memory");
  EXPECT_NO_THROW(require_host_memory(needs, needs.total()));
  EXPECT_NO_THROW(require_host_memory(needs, std::nullopt));
}

}  // namespace
}  // namespace heliograph
