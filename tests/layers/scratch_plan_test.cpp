#include "layers/scratch_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace heliograph {
namespace {

struct Piece {
  std::int64_t bytes;
  int first, last;
};

TEST(ScratchPlan, PiecesOfOtherTimesShareAPlace) {
  ScratchPlan plan;
  const int a = plan.add(640, 0, 1);
  const int b = plan.add(320, 1, 2);  // Its lifetime meets both.
  const int c = plan.add(600, 2, 3);
  plan.lay_out();
  EXPECT_EQ(plan.offset(a), 0);
  EXPECT_EQ(plan.offset(b), 640);
  EXPECT_EQ(plan.offset(c), 0);
  EXPECT_EQ(plan.bytes(), 960);
}

TEST(ScratchPlan, AnExtendedPieceMeetsWhatComesUntilItsEnd) {
  ScratchPlan plan;
  const int a = plan.add(64, 0, 0);
  const int b = plan.add(64, 3, 3);
  plan.extend(a, 3);
  plan.lay_out();
  EXPECT_NE(plan.offset(a), plan.offset(b));
}

TEST(ScratchPlan, PiecesWhoseTimesMeetNeverOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    ScratchPlan plan;
    std::vector<Piece> pieces;
    std::int64_t sum = 0, most_at_once = 0;
    for (int i = 0; i < 30; ++i) {
      const int first = static_cast<int>(random() % 20);
      const Piece p{static_cast<std::int64_t>(random() % 1000), first,
                    first + static_cast<int>(random() % 6)};
      EXPECT_EQ(plan.add(p.bytes, p.first, p.last), i);
      pieces.push_back(p);
      sum += (p.bytes + 63) / 64 * 64;
    }
    plan.lay_out();
    for (int i = 0; i < 30; ++i) {
      const Piece& a = pieces[static_cast<std::size_t>(i)];
      EXPECT_EQ(plan.offset(i) % 64, 0);
      EXPECT_LE(plan.offset(i) + a.bytes, plan.bytes());
      for (int j = 0; j < i; ++j) {
        const Piece& b = pieces[static_cast<std::size_t>(j)];
        if (a.first > b.last || b.first > a.last || a.bytes == 0 || b.bytes == 0) continue;
        EXPECT_TRUE(plan.offset(i) + a.bytes <= plan.offset(j) ||
                    plan.offset(j) + b.bytes <= plan.offset(i));
      }
    }
    for (int t = 0; t < 26; ++t) {
      std::int64_t live = 0;
      for (const Piece& p : pieces) live += p.first <= t && t <= p.last ? p.bytes : 0;
      most_at_once = std::max(most_at_once, live);
    }
    EXPECT_GE(plan.bytes(), most_at_once);
    EXPECT_LE(plan.bytes(), sum);
  }
}

}  // namespace
}  // namespace heliograph
