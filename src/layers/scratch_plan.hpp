#pragma once

#include <cstdint>
#include <vector>

namespace heliograph {

/// Lays out pieces of memory so that pieces which are never in use at the same time may overlap.
/// Times are integers that follow the order of a pass.
class ScratchPlan {
 public:
  /// Adds a piece of `bytes` that is in use from time `first` to time `last`, both included.
  /// Returns the piece's index.
  int add(std::int64_t bytes, int first, int last);
  /// Keeps a piece in use at least until time `last`.
  void extend(int piece, int last);

  /// Gives every piece its offset: the largest piece first, each at the lowest free offset.
  void lay_out();

  /// The offset of a piece in bytes, a multiple of 64. Call `lay_out` first.
  std::int64_t offset(int piece) const { return pieces_[static_cast<std::size_t>(piece)].offset; }
  /// The size in bytes of the memory that holds all pieces. Call `lay_out` first.
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
