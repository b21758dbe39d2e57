#include "support/allocations.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define HELIOGRAPH_COUNTS 0
#else
#define HELIOGRAPH_COUNTS 1
#endif

namespace {

std::atomic<std::int64_t> count{0};

}  // namespace

#if HELIOGRAPH_COUNTS
// glibc's own entry points, under the names that everything else calls.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  count.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t elements, std::size_t bytes) {
  count.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(elements, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  count.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  count.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  *memory = memalign(alignment, bytes);
  return *memory == nullptr ? 12 : 0;
}
}
#endif

namespace heliograph::test {

bool allocations_are_counted() { return HELIOGRAPH_COUNTS != 0; }

std::int64_t allocations() { return count.load(std::memory_order_relaxed); }

}  // namespace heliograph::test
