#include "quant/kept_columns.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace heliograph {
namespace {

/// Rows of one task, enough that the cost of starting a task is negligible.
constexpr std::int64_t kRowsPerTask = 256;

/// ColumnMasks::masks if all columns are kept.
std::vector<std::uint64_t> whole_masks(const ColumnMasks& m) {
  std::vector<std::uint64_t> masks(static_cast<std::size_t>(m.mask_count(0) * m.words()), 0);
  for (int bits = 1; bits <= m.mask_bits(); bits *= 2) {
    std::uint64_t* mask = masks.data() + ColumnMasks::mask_index(bits) * m.words();
    for (std::int64_t c = 0; c < m.cols; ++c) {
      const std::int64_t bit = code_bit(m.mask_bits(), m.cols, c);
      mask[bit / 64] |= ((1ULL << bits) - 1) << (bit % 64);
    }
  }
  return masks;
}

}  // namespace

KeptColumns::KeptColumns(std::vector<std::int64_t> nodes, std::vector<std::int64_t> starts,
                         std::int64_t cols, RowFormat format, bool drops, int epochs,
                         Device& device, MemoryUse use, MemoryAccount* account)
    : nodes_(std::move(nodes)),
      starts_(std::move(starts)),
      epochs_(epochs),
      device_(device),
      use_(use),
      account_(account),
      node_bytes_(use, device.on_host() ? account : nullptr),
      placed_nodes_(nodes_, device, use, account),
      placed_starts_(starts_, device, use, account),
      page_locked_(device.page_locked()) {
  m_.nodes = placed_nodes_.data();
  m_.cols = cols;
  m_.format = format;
  m_.keeps_all = !drops;
  const auto slots = static_cast<std::size_t>(epochs);
  drawn_.assign(slots, false);
  node_bytes_.set(static_cast<std::int64_t>(nodes_.size() * sizeof(std::int64_t)));
  const auto rows = static_cast<std::int64_t>(nodes_.size());
  const auto words = static_cast<std::size_t>(m_.mask_count(rows) * m_.words());
  masks_ = Buffer((drops ? slots : 1) * words * 8, use, account);
  if (!drops) {
    const std::vector<std::uint64_t> masks = whole_masks(m_);
    device.upload(masks_.data(), masks.data(), masks_.size());
  }
  offsets_ = Buffer(slots * (nodes_.size() + 1) * 8, use, account);
  if (!device.on_host()) start_offsets_ = Buffer(slots * starts_.size() * 8, use, &page_locked_);
}

ColumnMasks KeptColumns::masks_of(std::int64_t epoch) const {
  ColumnMasks m = m_;
  const std::size_t rows = nodes_.size();
  const std::size_t before = m.keeps_all ? 0 : slot(epoch) * rows;
  m.masks = masks_.as<std::uint64_t>().data() + before * static_cast<std::size_t>(m.words());
  m.offsets = offsets_.as<std::int64_t>().data() + slot(epoch) * (rows + 1);
  return m;
}

void KeptColumns::set_bits(std::span<const std::uint8_t> bits) {
  if (bits_.size() == 0) bits_ = Buffer(bits.size(), use_, account_);
  device_.upload(bits_.data(), bits.data(), bits.size());
  m_.row_bits = bits_.as<std::uint8_t>().data();
  drawn_.assign(drawn_.size(), false);
}

void KeptColumns::draw(std::int64_t epoch, std::uint32_t threshold, std::uint64_t stream) {
  const auto rows = static_cast<std::int64_t>(nodes_.size());
  const ColumnMasks m = masks_of(epoch);
  if (m.keeps_all && drawn_[slot(epoch)]) return;
  drawn_[slot(epoch)] = true;
  if (device_.queue() != nullptr) {
    return cuda::draw_columns(
        *device_.queue(), m, threshold, stream, rows, placed_starts_.data(),
        static_cast<std::int64_t>(starts_.size()),
        start_offsets_.as<std::int64_t>().data() + slot(epoch) * starts_.size());
  }
  device_.threads().for_ranges(rows, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    draw_columns(m, threshold, stream, begin, end);
  });
  m.offsets[0] = 0;
  for (std::int64_t r = 0; r < rows; ++r) m.offsets[r + 1] += m.offsets[r];
}

std::size_t KeptColumns::offset(std::int64_t epoch, std::int64_t start) const {
  if (device_.on_host()) return static_cast<std::size_t>(masks_of(epoch).offsets[start]);
  const auto at =
      static_cast<std::size_t>(std::ranges::lower_bound(starts_, start) - starts_.begin());
  const std::span<std::int64_t> offsets = start_offsets_.as<std::int64_t>();
  return static_cast<std::size_t>(offsets[slot(epoch) * starts_.size() + at]);
}

void KeptColumns::compress(std::int64_t epoch, std::int64_t begin, std::int64_t end,
                           const std::byte* packed, std::byte* out) const {
  const ColumnMasks m = masks_of(epoch);
  if (device_.queue() != nullptr) {
    return cuda::compress_columns(*device_.queue(), m, packed, out, begin, end);
  }
  device_.threads().for_ranges(end - begin, kRowsPerTask, [&](std::int64_t b, std::int64_t e) {
    compress_columns(m, packed, out, begin + b, begin + e);
  });
}

void KeptColumns::expand(std::int64_t epoch, const std::byte* kept, std::byte* packed) const {
  const auto rows = static_cast<std::int64_t>(nodes_.size());
  const ColumnMasks m = masks_of(epoch);
  if (device_.queue() != nullptr) {
    return cuda::expand_columns(*device_.queue(), m, kept, packed, rows);
  }
  device_.threads().for_ranges(rows, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    expand_columns(m, kept, packed, begin, end);
  });
}

}  // namespace heliograph
