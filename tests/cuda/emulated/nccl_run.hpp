#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "comm/nccl/transport.hpp"
#include "core/cuda/runtime.hpp"
#include "emulation.hpp"
#include "heliograph/error.hpp"
#include "nccl_emulation.hpp"

namespace heliograph::test {

/// Four emulated devices and an NCCL that has no past; afterwards nothing may have been violated.
class NcclTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("HELIOGRAPH_EMULATED_DEVICES", "4", 1);
    cuda_emulation::repair();
    nccl_emulation::reset();
  }
  void TearDown() override {
    EXPECT_EQ(nccl_emulation::violations(), std::vector<std::string>{});
    cuda::abandon_devices(false);
    unsetenv("HELIOGRAPH_EMULATED_DEVICES");
  }
};

/// Functions that `rank` has called, in order, with a blank between.
inline std::string functions_of(int rank) {
  std::string text;
  for (const nccl_emulation::Call& call : nccl_emulation::calls_of(rank)) {
    if (!text.empty()) text.push_back(' ');
    text.append(call.function);
    if (call.peer < 0) continue;
    text.append(":").append(std::to_string(call.peer));
    text.append(":").append(std::to_string(call.bytes));
  }
  return text;
}

}  // namespace heliograph::test
