#pragma once

#include "core/cpu/simd_targets.hpp"
// after simd_targets
#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

namespace heliograph {

/// Runs body() once for each instruction set that is compiled in and that this CPU has. Not
/// thread-safe: no other kernel may run at the same time.
template <class Body>
void for_each_simd_target(const Body& body) {
  const std::int64_t available = hwy::SupportedTargets() & HWY_TARGETS;
  for (std::int64_t left = available; left != 0; left &= left - 1) {
    const std::int64_t target = left & -left;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    const ::testing::ScopedTrace trace(__FILE__, __LINE__, hwy::TargetName(target));
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace heliograph
