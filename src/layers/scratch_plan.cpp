#include "layers/scratch_plan.hpp"

#include <algorithm>

namespace heliograph {

int ScratchPlan::add(std::int64_t bytes, int first, int last) {
  pieces_.push_back({(bytes + 63) / 64 * 64, first, last, 0});
  return static_cast<int>(pieces_.size()) - 1;
}

void ScratchPlan::extend(int piece, int last) {
  Piece& p = pieces_[static_cast<std::size_t>(piece)];
  p.last = std::max(p.last, last);
}

void ScratchPlan::lay_out() {
  std::vector<Piece*> by_size;
  for (Piece& piece : pieces_) by_size.push_back(&piece);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [](const Piece* a, const Piece* b) { return a->bytes > b->bytes; });
  std::vector<const Piece*> laid;  // By offset.
  for (Piece* piece : by_size) {
    piece->offset = 0;
    for (const Piece* other : laid) {
      if (other->first > piece->last || other->last < piece->first) continue;
      if (piece->offset + piece->bytes <= other->offset) break;
      piece->offset = std::max(piece->offset, other->offset + other->bytes);
    }
    const auto behind =
        std::upper_bound(laid.begin(), laid.end(), piece,
                         [](const Piece* a, const Piece* b) { return a->offset < b->offset; });
    laid.insert(behind, piece);
    bytes_ = std::max(bytes_, piece->offset + piece->bytes);
  }
}

}  // namespace heliograph
