#include "device_memory.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <iterator>

namespace heliograph::cuda_emulation {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kAlignment = 256;
constexpr int kUnset = 0xff;  // as floats: NaN

std::size_t rounded(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// `bytes` that can be read and written; null if there are none. Large ones begin on a huge page
/// and ask for such pages: what is there is changed page by page before and after all work.
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

struct sigaction before;

/// Says why the process is about to die; returning to the access then ends it.
void explain(int, siginfo_t*, void*) {
  constexpr char kText[] =
      "emulated CUDA device: memory was touched that is not there: device memory by the host, or "
      "by a kernel what lies behind it or on another device (or a plain wild pointer)\n";
  const auto written = write(STDERR_FILENO, kText, sizeof(kText) - 1);
  (void)written;
  sigaction(SIGSEGV, &before, nullptr);
}

void install_explanation() {
  static const bool installed = [] {
    struct sigaction action {};
    action.sa_sigaction = &explain;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGSEGV, &action, &before) == 0;
  }();
  (void)installed;
}

}  // namespace

void* DeviceMemory::take(std::size_t bytes, int device, bool open_to_host) {
  install_explanation();
  if (bytes == 0 || bytes > limit_ || live_bytes(device) > limit_ - bytes) return nullptr;
  const std::size_t page_bytes = rounded(bytes, kPage);
  std::byte* begin = map(page_bytes + kPage);
  if (begin == nullptr) return nullptr;
  std::memset(begin, kUnset, page_bytes);
  mprotect(begin + page_bytes, kPage, PROT_NONE);
  std::byte* data = begin + page_bytes - rounded(bytes, kAlignment);
  Piece piece{begin, page_bytes, bytes, device, true, false, open_to_host};
  set_open(piece, open_ == kAll || open_ == device);
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
  Piece& piece = found->second;
  set_open(piece, true);
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
  munmap(piece.pages, piece.page_bytes + kPage);
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

void DeviceMemory::set_open(Piece& piece, bool open) {
  if (piece.open == open || piece.open_to_host) return;
  mprotect(piece.pages, piece.page_bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
  piece.open = open;
}

void DeviceMemory::open(int device) {
  if (open_ == device) return;
  open_ = device;
  for (auto& [at, piece] : pieces_) set_open(piece, device == kAll || device == piece.device);
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
