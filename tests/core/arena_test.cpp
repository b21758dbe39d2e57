#include "core/arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "core/buffer.hpp"
#include "heliograph/error.hpp"
#include "support/expect_error.hpp"

namespace heliograph {
namespace {

constexpr std::size_t kSize = std::size_t{64} << 20;

bool all_zero(const Buffer& buffer) {
  const auto bytes = buffer.as<std::uint8_t>();
  return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b == 0; });
}

void fill(const Buffer& buffer) { std::memset(buffer.data(), 0xA5, buffer.size()); }

TEST(Arena, BuffersLieSideBySideOnLinesOfTheirOwn) {
  Arena arena(kSize);
  MemoryAccount account(&arena);
  const Buffer a(100, MemoryUse::halo, &account);
  const Buffer b(5000, MemoryUse::weights, &account);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % 64, 0U);
  // 100 bytes take two cache lines, and one more because readers may go past the end.
  EXPECT_EQ(b.data() - a.data(), 3 * 64);
  EXPECT_EQ(account.live(MemoryUse::halo), 100);
  EXPECT_EQ(account.live(MemoryUse::weights), 5000);
  EXPECT_EQ(arena.used(), 3 * 64 + 80 * 64);
}

TEST(Arena, MemoryIsZeroHoweverItWasUsedBefore) {
  Arena arena(kSize);
  MemoryAccount account(&arena);
  const Buffer below(100, MemoryUse::halo, &account);
  fill(below);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4000}, std::size_t{3} << 20}) {
    const std::size_t used = arena.used();
    {
      const Buffer last(bytes, MemoryUse::halo, &account);
      fill(last);
    }
    EXPECT_EQ(arena.used(), used);
    EXPECT_TRUE(all_zero(Buffer(2 * bytes, MemoryUse::halo, &account))) << bytes;
  }
  EXPECT_EQ(below.as<std::uint8_t>()[99], 0xA5);
}

TEST(Arena, AHoleLeavesItsNeighboursAlone) {
  Arena arena(kSize);
  MemoryAccount account(&arena);
  const Buffer before(100, MemoryUse::halo, &account);
  std::optional<Buffer> hole(std::in_place, 3 << 20, MemoryUse::halo, &account);
  const Buffer after(100, MemoryUse::halo, &account);
  fill(before);
  fill(*hole);
  fill(after);
  const std::uint8_t* held = hole->as<std::uint8_t>().data();
  hole.reset();
  // The pages stay mapped, but the system has their memory back.
  EXPECT_EQ(held[0], 0);
  EXPECT_EQ(held[2 << 20], 0);
  EXPECT_EQ(before.as<std::uint8_t>()[99], 0xA5);
  EXPECT_EQ(after.as<std::uint8_t>()[0], 0xA5);
  EXPECT_EQ(account.live(MemoryUse::halo), 200);
}

TEST(Arena, BuffersOfOneScopeLeaveNoHoleWhateverTheirOrder) {
  Arena arena(kSize);
  MemoryAccount account(&arena);
  const Buffer below(100, MemoryUse::halo, &account);
  const std::size_t used = arena.used();
  constexpr std::size_t kBytes = std::size_t{5} << 20;
  for (int time = 0; time < 20; ++time) {  // 200 MiB, one after the other, of 64
    std::optional<Buffer> first(std::in_place, kBytes, MemoryUse::halo, &account);
    std::optional<Buffer> second(std::in_place, kBytes, MemoryUse::halo, &account);
    fill(*first);
    fill(*second);
    first.reset();
    EXPECT_GT(arena.used(), used + 2 * kBytes);
    second.reset();
    ASSERT_EQ(arena.used(), used);
    ASSERT_TRUE(all_zero(Buffer(2 * kBytes, MemoryUse::halo, &account)));
  }
}

TEST(Arena, WhatDoesNotFitIsRefusedByRoomAndSize) {
  Arena arena(kSize);
  MemoryAccount account(&arena);
  // The spare cache line no longer fits.
  const auto take = [&] { const Buffer buffer(kSize, MemoryUse::gradients, &account); };
  EXPECT_EQ(test::expect_error(ErrorCode::resource, "", take),
            "out of memory: 67108864 bytes for gradients");
  EXPECT_EQ(account.live(MemoryUse::gradients), 0);
  EXPECT_EQ(Buffer(kSize - 64, MemoryUse::gradients, &account).size(), kSize - 64);
}

TEST(MemoryAccount, CanCountBuffersThatAreNotMade) {
  MemoryAccount account(nullptr);
  {
    const Matrix huge(std::int64_t{1} << 30, 1 << 20, MemoryUse::activations, &account);
    EXPECT_EQ(account.live(MemoryUse::activations), std::int64_t{1} << 52);
    EXPECT_TRUE(huge.empty());
  }
  EXPECT_EQ(account.live(MemoryUse::activations), 0);
  EXPECT_EQ(account.peak(MemoryUse::activations), std::int64_t{1} << 52);
  account.reset_peaks();
  EXPECT_EQ(account.peak(MemoryUse::activations), 0);
}

}  // namespace
}  // namespace heliograph
