// Scratch of a device's sums over ranks is known before the run, and allocated before its check.

#include <gtest/gtest.h>

#include "cuda/emulated/nccl_run.hpp"
#include "heliograph/shards.hpp"
#include "heliograph/train.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"
#include "train/plan/memory_needs.hpp"

namespace heliograph::test {
namespace {

class MemoryOfSums : public NcclTest {
 protected:
  MemoryOfSums() {
    options_.model.hidden = 256;
    options_.model.layers = 4;
    options_.eval_every = 0;
    options_.transport.device = DeviceKind::cuda;
  }
  /// The scratch of all ranks' sums.
  std::int64_t sums(const TrainResult& r) const {
    return 4 * r.parameters * (options_.partition.parts - 1);
  }

  const Dataset data_ = make_small_dataset(80, 12, 4, 5);
  TrainOptions options_ = small_options(4, 2);
};

TEST_F(MemoryOfSums, IsPartOfTheLeast) {
  for (const TransportKind kind : {TransportKind::threads, TransportKind::nccl}) {
    options_.transport.kind = kind;
    options_.exchange.gradient_bits = Bits::fp32;
    const TrainResult r = train(data_, options_);
    const std::int64_t least = least_memory(data_, options_, 0, 0)[MemoryUse::workspace];
    EXPECT_LE(least, r.memory.workspace);
    options_.exchange.gradient_bits = Bits::eight;  // The host sums those.
    const std::int64_t without = least_memory(data_, options_, 0, 0)[MemoryUse::workspace];
    EXPECT_GE(least - without, sums(r));
  }
}

TEST_F(MemoryOfSums, IsHeldBeforeTheFirstEpoch) {
  const TrainResult r = train(data_, options_);
  TemporaryDirectory folder;
  write_shards(data_, make_partition(data_.graph, options_.partition), options_, folder / "shards");
  // Kernels allocate their scratch after the check.
  options_.memory_limit_bytes = r.memory.total() - r.memory.workspace + sums(r) - 1;
  expect_error(ErrorCode::resource, {"memory-limit-mib allows", "for workspace"},
               [&] { train_shards(folder / "shards", options_); });
}

// A run fits into what it says that it has held: its hosts keep the best weights.
TEST_F(MemoryOfSums, IsNotExceededByTheBestWeights) {
  options_.eval_every = 1;
  options_.memory_limit_bytes = train(data_, options_).memory.total();
  EXPECT_NO_THROW(train(data_, options_));
}

}  // namespace
}  // namespace heliograph::test
