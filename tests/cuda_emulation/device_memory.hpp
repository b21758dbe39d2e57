#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

namespace heliograph::cuda_emulation {

/// Memory of the emulated devices: each piece on pages of its own, which are there for work of its
/// device only, from its first touch on, with nothing behind them. Guarded by the runtime's lock.
class DeviceMemory {
 public:
  /// Of a device's pool; of none; or of none and always there, for everybody.
  enum class Kind : std::uint8_t { pooled, plain, open_to_host };
  /// Null if the device has no more. Holds 0xff.
  void* take(std::size_t bytes, int device, Kind kind);
  /// Work that is asked for later may no longer use it; false if it is not (or no more) in use.
  bool retire(void* pointer);
  /// Ends a retired piece. Returns what was found to be wrong with it, or an empty string.
  std::string give_back(void* pointer);

  /// The piece that [pointer, pointer + bytes) lies in: its device; kNone where `pointer` lies in
  /// none, kBeyond where the range leaves it.
  int device_of(const void* pointer, std::size_t bytes) const;
  static constexpr int kNone = -1;
  static constexpr int kBeyond = -2;
  /// The device whose pool the piece is from; kNone: it is from none.
  int pool_of(const void* pointer) const;

  /// Whether `address` lies on the pages of a piece, or on the one behind them.
  bool has_page(const void* address) const;

  /// Which pieces the calling thread may touch from now on: those of one device, of all, or none.
  void open(int device);
  void open_all() { open(kAll); }
  void close() { open(kNone); }
  /// Makes the piece on whose pages `address` lies be there; false if it may not be, or was. Safe
  /// in a signal's handler where the interrupted thread holds the lock and is not in here.
  bool open_touched(const void* address);

  void set_limit(std::size_t bytes) { limit_ = bytes; }
  std::size_t limit() const { return limit_; }
  std::size_t live_bytes(int device) const;
  std::size_t live_bytes() const;

 private:
  static constexpr int kAll = -3;
  struct Piece {
    std::byte* pages;
    std::size_t page_bytes;  ///< Without the one behind that is never there.
    std::size_t bytes;
    int device;
    bool retired;
    Kind kind;
    bool open = false;
    Piece* opened_before = nullptr;  ///< Of those that are open.
  };
  using Pieces = std::map<std::uintptr_t, Piece>;
  bool may_open(const Piece& piece) const { return open_ == kAll || open_ == piece.device; }
  /// Ends what is open and may no longer be, and `ended`.
  void close_others(const Piece* ended);
  Pieces::const_iterator find(const void* pointer) const;
  /// The piece on whose pages, or `behind` bytes behind them, `address` lies.
  Pieces::const_iterator find_page(const void* address, std::size_t behind) const;

  Pieces pieces_;
  /// Addresses of the last pieces that ended, which nothing else is to have yet: a kernel that
  /// still touches them would find it.
  std::deque<std::pair<std::byte*, std::size_t>> ended_;
  int open_ = kNone;
  Piece* opened_ = nullptr;  ///< The last one that was; a list, as a handler may not allocate.
  std::size_t limit_ = std::size_t{4} << 30;
};

}  // namespace heliograph::cuda_emulation
