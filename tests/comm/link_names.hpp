#pragma once

#include <gtest/gtest.h>

#include <string>

#include "comm/threads/transport.hpp"

namespace heliograph::test {

/// The name of a test over a link whose rate and latency are whole numbers.
inline std::string name_of_link(const testing::TestParamInfo<LinkShape>& tested) {
  const auto whole = [](double value) { return std::to_string(static_cast<int>(value)); };
  return whole(tested.param.gbps) + "Gbps" + whole(tested.param.latency_us) + "Us";
}

}  // namespace heliograph::test
