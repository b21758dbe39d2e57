#pragma once

#include <cstddef>
#include <vector>

#include "core/memory_source.hpp"

namespace heliograph {

/// One rank's memory: address space that is reserved once, filled from its beginning and released
/// as a whole. The system provides a page when it is first written, a huge page where it can. Used
/// by one thread.
class Arena final : public MemorySource {
 public:
  /// Reserves addresses for `bytes`, the most that will ever be in use, or for fewer if a limit of
  /// the process forbids as many. Throws Error(resource) if less than 16 MiB can be reserved.
  explicit Arena(std::size_t bytes);
  ~Arena() override;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Returns zeroed, 64-byte aligned memory; null if the reservation or the system has no more.
  std::byte* take(std::size_t bytes) noexcept override;
  /// Returns the pages of a piece to the system. Its addresses are used again once every later
  /// piece has been given back too, so buffers of one scope leave no hole, whatever their order.
  void give_back(std::byte* begin, std::size_t bytes) noexcept override;

  /// Bytes from the beginning of the reservation to the end of the last piece in use.
  std::size_t used() const noexcept { return used_; }

 private:
  /// A piece begins where the piece before it ends.
  struct Piece {
    std::size_t end;
    bool taken;
  };
  std::size_t begin_of(std::size_t piece) const { return piece == 0 ? 0 : pieces_[piece - 1].end; }

  std::vector<Piece> pieces_;      ///< All pieces up to the last one in use.
  std::byte* reserved_ = nullptr;  ///< The reservation; `begin_` is its first huge page.
  std::size_t reserved_bytes_ = 0;
  std::byte* begin_ = nullptr;
  std::size_t size_ = 0;
  std::size_t used_ = 0;
  std::size_t writable_ = 0;
};

}  // namespace heliograph
