#pragma once

#include "core/cpu/simd_targets.hpp"
// after simd_targets
#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <string_view>
#include <vector>

namespace heliograph {

/// The instruction sets that are compiled in and that this CPU has, best first.
inline std::vector<std::int64_t> simd_targets() {
  std::vector<std::int64_t> targets;
  const std::int64_t available = hwy::SupportedTargets() & HWY_TARGETS;
  for (std::int64_t left = available; left != 0; left &= left - 1) targets.push_back(left & -left);
  return targets;
}

/// From here on the best instruction set is the one of that name ("AVX2"); false where there is
/// none.
inline bool limit_simd_targets(std::string_view best) {
  for (const std::int64_t target : simd_targets()) {
    if (hwy::TargetName(target) != best) continue;
    hwy::DisableTargets(target - 1);  // better ones have lower bits
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    return true;
  }
  return false;
}

/// Runs body() once for each instruction set that is compiled in and that this CPU has. Not
/// thread-safe: no other kernel may run at the same time.
template <class Body>
void for_each_simd_target(const Body& body) {
  for (const std::int64_t target : simd_targets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    const ::testing::ScopedTrace trace(__FILE__, __LINE__, hwy::TargetName(target));
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace heliograph
