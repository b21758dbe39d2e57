#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

namespace heliograph::cuda_emulation {

/// Memory of the emulated devices. Each allocation has its own pages, followed by a guard page.
/// They become accessible when work of the allocation's device first touches them, and only for
/// such work. Guarded by the runtime's lock.
class DeviceMemory {
 public:
  /// The origin of memory: a device's pool; no pool; or no pool, with access for all work and for
  /// the host at any time.
  enum class Kind : std::uint8_t { pooled, plain, open_to_host };
  /// Allocates memory filled with 0xff. Null if the device has not enough left.
  void* take(std::size_t bytes, int device, Kind kind);
  /// Forbids work that is enqueued from now on to use the piece. False if it is not in use.
  bool retire(void* pointer);
  /// Frees a retired piece. Returns what is wrong with the piece, or an empty string.
  std::string give_back(void* pointer);

  /// The device of the piece that contains [pointer, pointer + bytes); kNone if `pointer` is in no
  /// piece, kBeyond if the range ends outside of the piece.
  int device_of(const void* pointer, std::size_t bytes) const;
  static constexpr int kNone = -1;
  static constexpr int kBeyond = -2;
  /// The device from whose pool the piece was allocated; kNone if it is from no pool.
  int pool_of(const void* pointer) const;

  /// Whether `address` lies on the pages of a piece or on its guard page.
  bool has_page(const void* address) const;

  /// Which pieces the calling thread may touch from now on: those of one device, of all, or none.
  void open(int device);
  void open_all() { open(kAll); }
  void close() { open(kNone); }
  /// Makes the piece that has `address` on its pages accessible; false if that is not allowed, or
  /// if it was already. Safe in a signal handler if the interrupted thread holds the lock but is
  /// not in a function of this class.
  bool open_touched(const void* address);

  void set_limit(std::size_t bytes) { limit_ = bytes; }
  std::size_t limit() const { return limit_; }
  std::size_t live_bytes(int device) const;
  std::size_t live_bytes() const;

 private:
  static constexpr int kAll = -3;
  struct Piece {
    std::byte* pages;
    std::size_t page_bytes;  ///< Without the guard page.
    std::size_t bytes;
    int device;
    bool retired;
    Kind kind;
    bool open = false;
    Piece* opened_before = nullptr;  ///< The open piece that was opened before this one.
  };
  using Pieces = std::map<std::uintptr_t, Piece>;
  bool may_open(const Piece& piece) const { return open_ == kAll || open_ == piece.device; }
  /// Closes `ended` and every open piece that may no longer be open.
  void close_others(const Piece* ended);
  Pieces::const_iterator find(const void* pointer) const;
  /// The piece on whose pages `address` lies, or at most `behind` bytes behind them.
  Pieces::const_iterator find_page(const void* address, std::size_t behind) const;

  Pieces pieces_;
  /// Addresses of the pieces freed last. They are not reused yet, so that a kernel that still uses
  /// one of them faults.
  std::deque<std::pair<std::byte*, std::size_t>> ended_;
  int open_ = kNone;
  /// The piece opened last. The pieces form a linked list, as signal handlers must not allocate.
  Piece* opened_ = nullptr;
  std::size_t limit_ = std::size_t{4} << 30;
};

}  // namespace heliograph::cuda_emulation
