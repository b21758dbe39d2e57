#include "quant/kept_columns.hpp"

#include <algorithm>
#include <utility>

namespace heliograph {
namespace {

/// Rows of one task, enough that the cost of starting a task is negligible.
constexpr std::int64_t kRowsPerTask = 256;

}  // namespace

KeptColumns::KeptColumns(std::vector<std::int64_t> nodes, std::vector<std::int64_t> starts,
                         std::int64_t cols, RowFormat format, Device& device, MemoryUse use,
                         MemoryAccount* account)
    : nodes_(std::move(nodes)),
      starts_(std::move(starts)),
      device_(device),
      placed_nodes_(nodes_, device, use, account),
      placed_starts_(starts_, device, use, account),
      page_locked_(device.page_locked()) {
  m_.nodes = placed_nodes_.data();
  m_.cols = cols;
  m_.format = format;
  masks_ = Buffer(nodes_.size() * static_cast<std::size_t>(m_.words()) * 8, use, account);
  offsets_ = Buffer((nodes_.size() + 1) * 8, use, account);
  if (!device.on_host()) start_offsets_ = Buffer(starts_.size() * 8, use, &page_locked_);
  m_.masks = masks_.as<std::uint64_t>().data();
  m_.offsets = offsets_.as<std::int64_t>().data();
}

void KeptColumns::draw(std::uint32_t threshold, std::uint64_t stream) {
  const auto rows = static_cast<std::int64_t>(nodes_.size());
  if (device_.queue() != nullptr) {
    return cuda::draw_columns(*device_.queue(), m_, threshold, stream, rows, placed_starts_.data(),
                              static_cast<std::int64_t>(starts_.size()),
                              start_offsets_.as<std::int64_t>().data());
  }
  device_.threads().for_ranges(rows, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    draw_columns(m_, threshold, stream, begin, end);
  });
  m_.offsets[0] = 0;
  for (std::int64_t r = 0; r < rows; ++r) m_.offsets[r + 1] += m_.offsets[r];
}

std::size_t KeptColumns::offset(std::int64_t start) const {
  if (device_.on_host()) return static_cast<std::size_t>(m_.offsets[start]);
  const auto at = std::ranges::lower_bound(starts_, start) - starts_.begin();
  return static_cast<std::size_t>(start_offsets_.as<std::int64_t>()[static_cast<std::size_t>(at)]);
}

void KeptColumns::compress(std::int64_t begin, std::int64_t end, const std::byte* packed,
                           std::byte* out) const {
  if (device_.queue() != nullptr) {
    return cuda::compress_columns(*device_.queue(), m_, packed, out, begin, end);
  }
  device_.threads().for_ranges(end - begin, kRowsPerTask, [&](std::int64_t b, std::int64_t e) {
    compress_columns(m_, packed, out, begin + b, begin + e);
  });
}

void KeptColumns::expand(const std::byte* kept, std::byte* packed) const {
  const auto rows = static_cast<std::int64_t>(nodes_.size());
  if (device_.queue() != nullptr) {
    return cuda::expand_columns(*device_.queue(), m_, kept, packed, rows);
  }
  device_.threads().for_ranges(rows, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    expand_columns(m_, kept, packed, begin, end);
  });
}

}  // namespace heliograph
