#include "core/cuda/captures.hpp"

#include <array>
#include <cstddef>

namespace heliograph::cuda {
namespace {

/// No machine has as many devices; were there more, some would share a lock.
constexpr std::size_t kLocks = 64;

std::shared_mutex& lock_of(int device) {
  static std::array<std::shared_mutex, kLocks> locks;
  return locks[static_cast<std::size_t>(device) % kLocks];
}

}  // namespace

std::shared_lock<std::shared_mutex> hold_for_capture(int device) {
  return std::shared_lock(lock_of(device));
}

std::unique_lock<std::shared_mutex> hold_off_captures(int device) {
  return std::unique_lock(lock_of(device));
}

}  // namespace heliograph::cuda
