#include "support/simd_targets.hpp"

#include <gtest/gtest.h>

#include "core/cpu/simd_targets.hpp"
// after simd_targets
#include <hwy/highway.h>
#include <hwy/targets.h>

namespace heliograph {
namespace {

std::vector<std::int64_t> targets() {
  std::vector<std::int64_t> all;
  const std::int64_t available = hwy::SupportedTargets() & HWY_TARGETS;
  for (std::int64_t left = available; left != 0; left &= left - 1) all.push_back(left & -left);
  return all;
}

}  // namespace

std::vector<std::string> simd_targets() {
  std::vector<std::string> names;
  for (const std::int64_t target : targets()) names.emplace_back(hwy::TargetName(target));
  return names;
}

bool limit_simd_targets(std::string_view best) {
  for (const std::int64_t target : targets()) {
    if (hwy::TargetName(target) != best) continue;
    hwy::DisableTargets(target - 1);  // better ones have lower bits
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    return true;
  }
  return false;
}

void for_each_simd_target(const std::function<void()>& body) {
  for (const std::int64_t target : targets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    const ::testing::ScopedTrace trace(__FILE__, __LINE__, hwy::TargetName(target));
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace heliograph
