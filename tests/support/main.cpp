#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "support/simd_targets.hpp"

namespace {

/// Prints which instruction sets the tests run on, unless tests are only listed.
class NamedTargets : public ::testing::Environment {
 public:
  void SetUp() override {
    std::cout << "SIMD targets:";
    for (const std::string& name : heliograph::simd_targets()) std::cout << ' ' << name;
    std::cout << std::endl;
  }
};

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const char* best = std::getenv("HELIOGRAPH_TEST_SIMD");
  if (best != nullptr && !heliograph::limit_simd_targets(best)) {
    std::cerr << "HELIOGRAPH_TEST_SIMD=" << best
              << " is no instruction set of this CPU and build\n";
    return 2;
  }
  ::testing::AddGlobalTestEnvironment(new NamedTargets);
  return RUN_ALL_TESTS();
}
