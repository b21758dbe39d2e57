#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace heliograph::cuda_emulation {

/// Memory of the emulated devices: each piece on pages of its own, which are there for work of its
/// device only, with nothing behind them. Guarded by the runtime's lock.
class DeviceMemory {
 public:
  /// Null if the device has no more. Holds 0xff. `open_to_host`: always there, for everybody.
  void* take(std::size_t bytes, int device, bool open_to_host = false);
  /// Work that is asked for later may no longer use it; false if it is not (or no more) in use.
  bool retire(void* pointer);
  /// Ends a retired piece. Returns what was found to be wrong with it, or an empty string.
  std::string give_back(void* pointer);

  /// The piece that [pointer, pointer + bytes) lies in: its device; kNone where `pointer` lies in
  /// none, kBeyond where the range leaves it.
  int device_of(const void* pointer, std::size_t bytes) const;
  static constexpr int kNone = -1;
  static constexpr int kBeyond = -2;

  /// Which pieces are there from now on: those of one device, of all, or none.
  void open(int device);
  void open_all() { open(kAll); }
  void close() { open(kNone); }

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
    bool open;
    bool retired;
    bool open_to_host;
  };
  using Pieces = std::map<std::uintptr_t, Piece>;
  static void set_open(Piece& piece, bool open);
  Pieces::const_iterator find(const void* pointer) const;

  Pieces pieces_;
  int open_ = kNone;
  std::size_t limit_ = std::size_t{4} << 30;
};

}  // namespace heliograph::cuda_emulation
