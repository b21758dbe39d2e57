#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "runtime.hpp"

namespace heliograph::cuda_emulation {
namespace {

/// No program has memory of its own below or above, while most integers lie below.
constexpr std::uintptr_t kLowest = std::uintptr_t{1} << 32;
constexpr std::uintptr_t kHighest = std::uintptr_t{1} << 47;
constexpr std::uintptr_t kHostPage = 4096;

bool is_page_locked(std::uintptr_t at) {
  const auto next = runtime().pinned.upper_bound(at);
  if (next == runtime().pinned.begin()) return false;
  const auto& [begin, bytes] = *std::prev(next);
  return at <= begin + bytes;  // Ends are pointed to as well.
}

/// A random number counts as one with a chance of the process's resident bytes in 2^64: for 1 GiB,
/// 2^-34.
bool is_host_pointer(std::uintptr_t word) {
  if (word < kLowest || word >= kHighest) return false;
  if (runtime().memory.has_page(reinterpret_cast<const void*>(word)) || is_page_locked(word)) {
    return false;
  }
  unsigned char resident = 0;
  void* page = reinterpret_cast<void*>(word / kHostPage * kHostPage);
  return mincore(page, 1, &resident) == 0 && (resident & 1U) != 0;
}

}  // namespace

std::string find_host_pointer(const KnownKernel& kernel, void** arguments) {
  for (std::size_t i = 0; i < kernel.type.sizes.size(); ++i) {
    const auto* bytes = static_cast<const std::byte*>(arguments[i]);
    for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= kernel.type.sizes[i];
         at += sizeof(std::uintptr_t)) {
      std::uintptr_t word = 0;
      std::memcpy(&word, bytes + at, sizeof(word));
      if (!is_host_pointer(word)) continue;
      return "argument " + std::to_string(i + 1) + " holds an address of the host's memory, in " +
             kernel.type.name;
    }
  }
  return {};
}

}  // namespace heliograph::cuda_emulation
