#include "comm/exchange/exact_halo.hpp"

#include <algorithm>
#include <utility>

#include "comm/collectives.hpp"
#include "comm/exchange/halo_exchange.hpp"

namespace heliograph {

namespace {

constexpr std::size_t kHaloLine = 64;
constexpr std::int64_t kLeastBlock = 16;  // Columns in one cache line of a row.
/// The fewest columns of a block in lent memory. With narrower blocks the graph would be read so
/// often that the time is not worth the memory.
constexpr std::int64_t kLeastScratchBlock = 64;
constexpr std::int64_t kAnyColumns = std::int64_t{1} << 32;

std::int64_t columns_that_fit(std::int64_t rows, std::int64_t bytes) {
  const std::int64_t fit = bytes / (std::max<std::int64_t>(1, rows) * 4);
  return std::max(kLeastBlock, fit / kLeastBlock * kLeastBlock);
}

}  // namespace

ExactHalo::ExactHalo(Communicator& comm, const PlacedShard& shard, std::int64_t largest_halo_rows,
                     std::int64_t chunk_bytes, MemoryAccount* account)
    : comm_(comm),
      shard_(shard),
      block_cols_(columns_that_fit(largest_halo_rows, chunk_bytes)),
      account_(account),
      codecs_(shard.device()) {}

void ExactHalo::open(const Site& site, const OfferedRows& rows) {
  comm_.set_progress({static_cast<int>(epoch_), site.layer});
  rows_[site.partial_sums ? 1 : 0] = rows;
}

std::int64_t ExactHalo::scratch_columns(std::span<std::byte> scratch) const {
  std::int64_t rows = 0;
  for (const HaloPlan* plan : shard_.shard().plans()) {
    rows = std::max(rows, plan->send_rows() + plan->halo_rows);
  }
  const auto bytes =
      static_cast<std::int64_t>(scratch.size()) - 4 * static_cast<std::int64_t>(kHaloLine);
  return rows == 0 ? kAnyColumns : std::max<std::int64_t>(0, bytes) / (rows * 4);
}

std::int64_t ExactHalo::block_cols(const Site& site) const {
  // The exact columns take up whole cache lines of each block.
  const std::int64_t taken = round_up(site.exact_cols, kLeastBlock);
  return std::min(site.cols, std::max(kLeastBlock, block_cols_ - taken));
}

std::int64_t ExactHalo::block_bytes(std::span<const Site> sites) const {
  if (keeps_buffers_ || !scratch_.empty()) return 0;
  std::int64_t most = 0;
  for (const Site& site : sites) {
    if (site.direction == Direction::backward) continue;
    const HaloPlan& plan = shard_.shard().plan(site.direction, site.partial_sums);
    most = std::max(most,
                    4 * (plan.send_rows() + plan.halo_rows) * (block_cols(site) + site.exact_cols));
  }
  return most;
}

void ExactHalo::set_scratch(std::span<std::byte> scratch, std::span<const Site> sites) {
  std::int64_t widest = 0;
  for (const Site& site : sites) {
    widest =
        std::max(widest, round_up(site.cols, kLeastBlock) + round_up(site.exact_cols, kLeastBlock));
  }
  std::vector<std::int64_t> columns(static_cast<std::size_t>(comm_.size()), 0);
  columns[static_cast<std::size_t>(comm_.rank())] = scratch_columns(scratch);
  AllReduce(comm_, Channel::evaluation).sum(std::span<std::int64_t>(columns));
  const std::int64_t fit = *std::min_element(columns.begin(), columns.end());
  if (fit < std::min({kLeastScratchBlock, block_cols_, widest})) return;
  block_cols_ = std::min(block_cols_, fit / kLeastBlock * kLeastBlock);
  scratch_ = scratch;
}

std::unique_ptr<ExactHalo::Buffers> ExactHalo::make_buffers(const HaloPlan& plan) const {
  auto made = std::unique_ptr<Buffers>(
      new Buffers{{plan, comm_.rank(), comm_.size(), false},
                  {comm_, Channel::evaluation, shard_.device(), MemoryUse::evaluation, account_}});
  made->schedule.place(shard_.device(), MemoryUse::evaluation, account_);
  return made;
}

void ExactHalo::lend(HaloSlot& slot, RowFormat format, std::int64_t cols, std::int64_t send_rows,
                     std::int64_t halo_rows) const {
  std::span<std::byte> left = scratch_;
  // A cache line behind each block must be readable.
  const auto cut = [&](std::int64_t rows) {
    const std::size_t bytes = static_cast<std::size_t>(rows) * format.row_bytes(cols);
    const std::size_t whole = (bytes + 2 * kHaloLine - 1) / kHaloLine * kHaloLine;
    if (whole > left.size()) return std::span<std::byte>();
    const std::span<std::byte> block = left.first(bytes);
    left = left.subspan(whole);
    return block;
  };
  const std::span<std::byte> receive = cut(halo_rows);
  slot.borrow(cut(send_rows), receive);
}

void ExactHalo::finish(const Site& site, FunctionRef<void(const PackedRows&)> consume) {
  const HaloPlan& plan = shard_.shard().plan(site.direction, site.partial_sums);
  const std::size_t kind = site.partial_sums ? 1 : 0;
  std::unique_ptr<Buffers>& kept = kept_[site.direction == Direction::forward ? 0 : 1][kind];
  // Not in `kept`, so that an exception ends the messages before their memory is freed.
  std::unique_ptr<Buffers> buffers = kept ? std::move(kept) : make_buffers(plan);
  auto& [schedule, slot] = *buffers;
  PhaseClock times;
  const RowFormat format{32, false, static_cast<int>(site.exact_cols)};
  const std::int64_t most = block_cols(site);
  lend(slot, format, most, schedule.rows(), plan.halo_rows);
  Site block = site;
  const OfferedRows& rows = rows_[kind];
  OfferedRows offered = rows;
  for (std::int64_t c = 0; c < rows.values.cols; c += block.cols) {
    block.cols = std::min(most, rows.values.cols - c);
    offered.values = rows.values.col_range(c, block.cols);
    HaloExchange exchange(comm_, shard_, plan, schedule, block, 0);
    exchange.open(slot, codecs_.of(format), {epoch_}, offered, times);
    exchange.offer({0, rows.values.rows}, times);
    PackedRows packed = exchange.finish(slot, {}, times);
    packed.col_begin = c;
    if (packed.rows > 0) consume(packed);
  }
  slot.wait_for_sends();
  shard_.device().finish();  // The slot's memory may be freed next.
  if (keeps_buffers_) kept = std::move(buffers);
}

}  // namespace heliograph
