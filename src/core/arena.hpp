#pragma once

#include <cstddef>
#include <vector>

#include "core/memory_source.hpp"

namespace heliograph {

/// Address space that is reserved once and filled from its beginning: what one rank keeps for the
/// whole run lies in it side by side and goes as one. Memory is taken from the system page by page
/// when it is first written, in huge pages where the system lends them. Used by one thread.
class Arena final : public MemorySource {
 public:
  /// `bytes`: the most that will ever be taken. Only addresses are reserved; where a limit of the
  /// process forbids as many, fewer are. Throws Error(resource) if it forbids nearly all.
  explicit Arena(std::size_t bytes);
  ~Arena() override;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Zeroed, 64-byte aligned. Null if the reservation or the system has no more.
  std::byte* take(std::size_t bytes) noexcept override;
  /// Returns the pages of what `take(bytes)` gave. Its addresses are used again once all that was
  /// taken later is given back too, so that buffers of one scope leave no hole, whatever their
  /// order.
  void give_back(std::byte* begin, std::size_t bytes) noexcept override;

  /// Addresses between the beginning and the end of what was taken last and still is.
  std::size_t used() const noexcept { return used_; }

 private:
  /// From where the one before it ends.
  struct Piece {
    std::size_t end;
    bool taken;
  };
  std::size_t begin_of(std::size_t piece) const { return piece == 0 ? 0 : pieces_[piece - 1].end; }

  std::vector<Piece> pieces_;      ///< All up to the last that is taken.
  std::byte* reserved_ = nullptr;  ///< What the system gave; `begin_` is its first huge page.
  std::size_t reserved_bytes_ = 0;
  std::byte* begin_ = nullptr;
  std::size_t size_ = 0;
  std::size_t used_ = 0;
  std::size_t writable_ = 0;
};

}  // namespace heliograph
