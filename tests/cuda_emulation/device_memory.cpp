#include "device_memory.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <system_error>

#include "faults.hpp"

namespace heliograph::cuda_emulation {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kAlignment = 256;
constexpr std::size_t kEndedKept = 64;
constexpr int kUnset = 0xff;  // as floats: NaN

std::size_t rounded(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Maps `bytes` that can be read and written; null if there are none. Large pieces use huge pages,
/// because pages are opened and closed around all work.
std::byte* map(std::size_t bytes) {
  const std::size_t slack = bytes >= kHugePage ? kHugePage : 0;
  void* pages = mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(pages);
  if (slack == 0) return begin;
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::size_t ahead = rounded(address, kHugePage) - address;
  if (ahead > 0) munmap(begin, ahead);
  if (ahead < slack) munmap(begin + ahead + bytes, slack - ahead);
  madvise(begin + ahead, bytes, MADV_HUGEPAGE);
  return begin + ahead;
}

void forbid(std::byte* pages, std::size_t bytes) {
  if (mprotect(pages, bytes, PROT_NONE) != 0) {
    throw std::system_error(errno, std::generic_category(), "taking emulated memory away");
  }
}

}  // namespace

void* DeviceMemory::take(std::size_t bytes, int device, Kind kind) {
  watch_faults();
  if (bytes == 0 || bytes > limit_ || live_bytes(device) > limit_ - bytes) return nullptr;
  const std::size_t page_bytes = rounded(bytes, kPage);
  std::byte* begin = map(page_bytes + kPage);
  if (begin == nullptr) return nullptr;
  std::memset(begin, kUnset, page_bytes);
  const bool stays = kind == Kind::open_to_host;
  forbid(stays ? begin + page_bytes : begin, stays ? kPage : page_bytes + kPage);
  std::byte* data = begin + page_bytes - rounded(bytes, kAlignment);
  const Piece piece{begin, page_bytes, bytes, device, false, kind};
  pieces_.emplace(reinterpret_cast<std::uintptr_t>(data), piece);
  return data;
}

bool DeviceMemory::retire(void* pointer) {
  const auto found = pieces_.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == pieces_.end() || found->second.retired) return false;
  found->second.retired = true;
  return true;
}

std::string DeviceMemory::give_back(void* pointer) {
  const auto found = pieces_.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == pieces_.end()) return "memory is freed twice";
  const Piece& piece = found->second;
  close_others(&piece);
  if (mprotect(piece.pages, piece.page_bytes, PROT_READ) != 0) return "memory cannot be read";
  const auto* data = static_cast<const std::byte*>(pointer);
  std::string wrong;
  for (const std::byte* at = piece.pages; at < piece.pages + piece.page_bytes; ++at) {
    if (at == data) at += piece.bytes;
    if (at < piece.pages + piece.page_bytes && std::to_integer<int>(*at) != kUnset) {
      wrong = std::string("memory was written ") + (at < data ? "before" : "behind") +
              " a piece of " + std::to_string(piece.bytes) + " bytes";
      break;
    }
  }
  madvise(piece.pages, piece.page_bytes, MADV_DONTNEED);
  forbid(piece.pages, piece.page_bytes);
  ended_.emplace_back(piece.pages, piece.page_bytes + kPage);
  if (ended_.size() > kEndedKept) {
    munmap(ended_.front().first, ended_.front().second);
    ended_.pop_front();
  }
  pieces_.erase(found);
  return wrong;
}

DeviceMemory::Pieces::const_iterator DeviceMemory::find(const void* pointer) const {
  const auto at = reinterpret_cast<std::uintptr_t>(pointer);
  const auto next = pieces_.upper_bound(at);
  if (next == pieces_.begin()) return pieces_.end();
  const auto found = std::prev(next);
  return at < found->first + found->second.bytes ? found : pieces_.end();
}

int DeviceMemory::device_of(const void* pointer, std::size_t bytes) const {
  const auto found = find(pointer);
  if (found == pieces_.end()) return kNone;
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(pointer) - found->first;
  if (found->second.retired || bytes > found->second.bytes - offset) return kBeyond;
  return found->second.device;
}

void DeviceMemory::open(int device) {
  answer_touches(device == kNone ? nullptr : this);
  if (open_ == device) return;
  open_ = device;
  close_others(nullptr);
}

DeviceMemory::Pieces::const_iterator DeviceMemory::find_page(const void* address,
                                                             std::size_t behind) const {
  // Pieces begin in the first of their pages; the one that begins behind `address` may have it too.
  auto found = pieces_.upper_bound(reinterpret_cast<std::uintptr_t>(address));
  if (found == pieces_.end() || address < found->second.pages) {
    if (found == pieces_.begin()) return pieces_.end();
    --found;
  }
  const Piece& piece = found->second;
  return address < piece.pages + piece.page_bytes + behind ? found : pieces_.end();
}

bool DeviceMemory::has_page(const void* address) const {
  return find_page(address, kPage) != pieces_.end();
}

bool DeviceMemory::open_touched(const void* address) {
  const auto found = find_page(address, 0);
  if (found == pieces_.end()) return false;
  Piece& piece = pieces_.find(found->first)->second;
  if (piece.open || !may_open(piece)) return false;
  if (mprotect(piece.pages, piece.page_bytes, PROT_READ | PROT_WRITE) != 0) return false;
  piece.open = true;
  piece.opened_before = opened_;
  opened_ = &piece;
  return true;
}

void DeviceMemory::close_others(const Piece* ended) {
  Piece** link = &opened_;
  while (*link != nullptr) {
    Piece& piece = **link;
    if (may_open(piece) && &piece != ended) {
      link = &piece.opened_before;
      continue;
    }
    forbid(piece.pages, piece.page_bytes);
    piece.open = false;
    *link = piece.opened_before;
  }
}

int DeviceMemory::pool_of(const void* pointer) const {
  const auto found = find(pointer);
  const bool pooled = found != pieces_.end() && found->second.kind == Kind::pooled;
  return pooled ? found->second.device : kNone;
}

std::size_t DeviceMemory::live_bytes(int device) const {
  std::size_t sum = 0;
  for (const auto& [at, piece] : pieces_) {
    if (piece.device == device) sum += piece.bytes;
  }
  return sum;
}

std::size_t DeviceMemory::live_bytes() const {
  std::size_t sum = 0;
  for (const auto& [at, piece] : pieces_) sum += piece.bytes;
  return sum;
}

}  // namespace heliograph::cuda_emulation
