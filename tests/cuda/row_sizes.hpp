#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "cuda/device_arrays.hpp"

namespace heliograph {

/// Widths around whole blocks of codes, warps and chunks of 256 columns.
inline constexpr std::int64_t kWidths[] = {1,  2,  7,   8,   15,  16,  17,  31,  33, 47,
                                           64, 96, 100, 128, 130, 256, 257, 300, 602};

/// Runs body(rows, cols): every width with 33 rows, every number of rows with some widths, and one
/// larger matrix.
template <class Body>
void for_row_sizes(const Body& body) {
  const auto run = [&](std::int64_t rows, std::int64_t cols) {
    if (::testing::Test::HasFatalFailure()) return;
    SCOPED_TRACE(::testing::Message() << rows << " x " << cols);
    body(rows, cols);
  };
  for (const std::int64_t cols : kWidths) run(33, cols);
  for (const std::int64_t rows : kTwinSizes) {
    for (const std::int64_t cols : {47, 256, 300}) run(rows, cols);
  }
  run(1500, 256);
}

}  // namespace heliograph
