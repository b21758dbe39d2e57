#include "comm/exact_halo.hpp"

#include <algorithm>

#include "comm/halo_exchange.hpp"

namespace heliograph {

namespace {

constexpr std::int64_t kLeastBlock = 16;  // one cache line of a row

std::int64_t columns_that_fit(std::int64_t rows, std::int64_t bytes) {
  const std::int64_t fit = bytes / (std::max<std::int64_t>(1, rows) * 4);
  return std::max(kLeastBlock, fit / kLeastBlock * kLeastBlock);
}

}  // namespace

ExactHalo::ExactHalo(Communicator& comm, const Shard& shard, std::int64_t largest_halo_rows,
                     std::int64_t chunk_bytes, ThreadPool& threads, MemoryAccount* account)
    : comm_(comm),
      shard_(shard),
      block_cols_(columns_that_fit(largest_halo_rows, chunk_bytes)),
      threads_(threads),
      account_(account),
      codec_(make_cpu_codec({32, false})) {}

void ExactHalo::begin(int layer, Direction /*direction*/, ConstMatrixView rows,
                      const float* row_scale, bool /*nonnegative*/) {
  comm_.set_progress({static_cast<int>(epoch_), layer});
  rows_ = rows;
  row_scale_ = row_scale;
}

void ExactHalo::finish(int layer, Direction direction,
                       FunctionRef<void(const PackedRows&)> consume) {
  const HaloPlan& plan = shard_.adjacency(direction).plan;
  const SendSchedule schedule(plan, comm_.rank(), comm_.size(), false);
  HaloSlot slot(comm_, MemoryRoom::evaluation, account_);
  PhaseClock clock;
  for (std::int64_t c = 0; c < rows_.cols; c += block_cols_) {
    const std::int64_t cols = std::min(block_cols_, rows_.cols - c);
    HaloExchange exchange(comm_, Channel::evaluation, plan, schedule, *codec_, cols,
                          {layer, direction, 0}, shard_.global_ids);
    exchange.start(slot, epoch_, rows_.col_range(c, cols), row_scale_, threads_, clock);
    PackedRows packed = exchange.finish(slot, clock);
    packed.col_begin = c;
    if (packed.rows > 0) consume(packed);
  }
  slot.wait_for_sends();
}

}  // namespace heliograph
