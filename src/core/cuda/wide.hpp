#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/cuda/launch.hpp"

// Loads and stores in device code, as wide as the alignment allows.

namespace heliograph::cuda {

/// Alignment in bytes, `most` at most, of rows that begin at `begin` and lie `pitch` bytes apart.
inline int alignment_of(const void* begin, std::int64_t pitch, int most) {
  const auto bits = reinterpret_cast<std::uintptr_t>(begin) | static_cast<std::uintptr_t>(pitch);
  int alignment = most;
  while ((bits & static_cast<std::uintptr_t>(alignment - 1)) != 0) alignment /= 2;
  return alignment;
}

#if defined(__CUDACC__)

/// kCount values that are loaded and stored in one access.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Wide {
  T at[kCount];
};

template <class T, int kCount>
__device__ inline Wide<T, kCount> load_wide(const void* from) {
  return *static_cast<const Wide<T, kCount>*>(from);
}

/// Address of row j, begin + j * pitch, in one multiply-add; j must not be negative.
__device__ inline const std::byte* row_at(const std::byte* begin, std::int32_t j,
                                          std::uint32_t pitch) {
  return begin + static_cast<std::uint64_t>(static_cast<std::uint32_t>(j)) * pitch;
}

template <class T>
__device__ inline T load_as(const void* from) {
  return *static_cast<const T*>(from);
}

/// kBytes bytes (1, 2 or 4), aligned to kUnit, as a number. May read all of the two aligned words
/// from the one of `from` on.
template <int kBytes, int kUnit>
__device__ inline std::uint32_t load_bytes(const std::byte* from) {
  if constexpr (kBytes == 1) {
    return load_as<std::uint8_t>(from);
  } else if constexpr (kBytes == 2 && kUnit >= 2) {
    return load_as<std::uint16_t>(from);
  } else if constexpr (kBytes == 2) {
    return load_as<std::uint8_t>(from) | static_cast<unsigned>(load_as<std::uint8_t>(from + 1))
                                             << 8;
  } else if constexpr (kUnit >= 4) {
    return load_as<std::uint32_t>(from);
  } else {
    // Loads two aligned words and shifts them together.
    const auto past = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(from) % 4);
    const std::byte* word = from - past;
    const std::uint64_t both = load_as<std::uint32_t>(word) |
                               static_cast<std::uint64_t>(load_as<std::uint32_t>(word + 4)) << 32;
    return static_cast<std::uint32_t>(both >> (8 * past));
  }
}

/// Byte n of the result is byte s of x (s = 0 to 3) or byte s - 4 of y, where s is hexadecimal
/// digit n of `selector`. One instruction on a device; the loop serves tests on a CPU.
__device__ inline std::uint32_t permute_bytes(std::uint32_t x, std::uint32_t y,
                                              std::uint32_t selector) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(x, y, selector);
#else
  const std::uint64_t both = x | static_cast<std::uint64_t>(y) << 32;
  std::uint32_t result = 0;
  for (int n = 0; n < 4; ++n) {
    const std::uint32_t digit = (selector >> (4 * n)) & 7U;
    result |= (static_cast<std::uint32_t>(both >> (8 * digit)) & 0xffU) << (8 * n);
  }
  return result;
#endif
}

/// Stores the low kBytes bytes (1, 2 or 4) of `value`, as wide as the alignment of `to` allows.
template <int kBytes>
__device__ inline void store_bytes(std::byte* to, std::uint32_t value) {
  const auto past = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(to));
  if (kBytes == 4 && past % 4 == 0) {
    *reinterpret_cast<std::uint32_t*>(to) = value;
  } else if (kBytes >= 2 && past % 2 == 0) {
    for (int i = 0; i < kBytes; i += 2) {
      *reinterpret_cast<std::uint16_t*>(to + i) = static_cast<std::uint16_t>(value >> (8 * i));
    }
  } else {
    for (int i = 0; i < kBytes; ++i) to[i] = static_cast<std::byte>(value >> (8 * i));
  }
}

#endif

}  // namespace heliograph::cuda
