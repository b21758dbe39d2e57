#include "core/arena.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

#include "core/throw_error.hpp"

namespace heliograph {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLeast = 8 * kHugePage;
constexpr std::size_t kPieces = 1024;  // more than most runs need, so the vector rarely grows

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

Arena::Arena(std::size_t bytes) {
  pieces_.reserve(kPieces);
  // Unreadable memory counts against no overcommit limit until it is made writable.
  for (std::size_t size = round_up(std::max(bytes, kLeast), kHugePage); size >= kLeast;
       size = round_up(size / 2, kHugePage)) {
    void* memory = mmap(nullptr, size + kHugePage, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) {
      reserved_ = static_cast<std::byte*>(memory);
      reserved_bytes_ = size + kHugePage;
      const auto address = reinterpret_cast<std::uintptr_t>(reserved_);
      begin_ = reserved_ + (round_up(address, kHugePage) - address);
      size_ = size;
      madvise(begin_, size_, MADV_HUGEPAGE);  // only a hint: failure costs speed, nothing else
      return;
    }
    if (size == kLeast) break;
  }
  throw_error(ErrorCode::resource,
              "the system has no address space for the {} MiB that a rank needs at least: raise "
              "`ulimit -v`",
              kLeast >> 20);
}

Arena::~Arena() { munmap(reserved_, reserved_bytes_); }

std::byte* Arena::take(std::size_t bytes) noexcept {
  const std::size_t whole = round_up(std::max<std::size_t>(1, bytes), kLineBytes);
  if (whole < bytes || whole > size_ - used_) return nullptr;
  const std::size_t end = used_ + whole;
  if (end > writable_) {
    const std::size_t grown = round_up(end, kHugePage);
    if (mprotect(begin_ + writable_, grown - writable_, PROT_READ | PROT_WRITE) != 0) {
      return nullptr;
    }
    writable_ = grown;
  }
  try {
    pieces_.push_back({end, true});
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  std::byte* taken = begin_ + used_;
  used_ = end;
  return taken;
}

void Arena::give_back(std::byte* begin, std::size_t bytes) noexcept {
  const auto first = static_cast<std::size_t>(begin - begin_);
  const std::size_t last = first + round_up(bytes, kLineBytes);
  // Whole pages go back to the system and read as zero afterwards; partial ones are zeroed here.
  const std::size_t page = page_bytes();
  const std::size_t pages_begin = std::min(round_up(first, page), last);
  const std::size_t pages_end = std::max(last / page * page, pages_begin);
  std::memset(begin, 0, pages_begin - first);
  if (pages_end > pages_begin &&
      madvise(begin_ + pages_begin, pages_end - pages_begin, MADV_DONTNEED) != 0) {
    std::memset(begin_ + pages_begin, 0, pages_end - pages_begin);
  }
  std::memset(begin_ + pages_end, 0, last - pages_end);
  // Searched from the end: mostly the last piece, or one close to it, is given back.
  std::size_t piece = pieces_.size() - 1;
  while (begin_of(piece) != first) --piece;
  pieces_[piece].taken = false;
  while (!pieces_.empty() && !pieces_.back().taken) pieces_.pop_back();
  used_ = begin_of(pieces_.size());
}

}  // namespace heliograph
