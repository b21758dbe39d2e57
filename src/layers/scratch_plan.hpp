#pragma once

#include <cstdint>
#include <vector>

namespace heliograph {

/// Lays pieces of memory that are needed for a part of a pass only over each other: pieces whose
/// times meet lie apart, others may share a place. Times are the order of what a pass does.
class ScratchPlan {
 public:
  /// A piece of `bytes` that is in use from time `first` to time `last`, both included. Returns its
  /// index.
  int add(std::int64_t bytes, int first, int last);
  /// In use until then.
  void extend(int piece, int last);

  /// Gives every piece its place; the largest ones choose first.
  void lay_out();

  /// Of a piece, from the beginning of the memory; a multiple of 64.
  std::int64_t offset(int piece) const { return pieces_[static_cast<std::size_t>(piece)].offset; }
  /// Of the whole memory.
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Piece {
    std::int64_t bytes;
    int first, last;
    std::int64_t offset;
  };
  std::vector<Piece> pieces_;
  std::int64_t bytes_ = 0;
};

}  // namespace heliograph
