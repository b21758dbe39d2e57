#pragma once

// Accumulators in registers. Vectors of a size unknown to the compiler cannot be array elements, so
// they are variables sum0 to sum15, and macros repeat code for each of them.

#define HELIOGRAPH_EACH_ACCUMULATOR(F) \
  F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15)

/// Declares accumulator k as zeros of the Highway tag `d`.
#define HELIOGRAPH_ZERO(k) auto sum##k = hn::Zero(d);
