#pragma once

#include <cstdint>

#include "core/matrix.hpp"
#include "core/packed_rows.hpp"

namespace heliograph {

/// The values of packed rows.
inline Matrix decoded(const PackedRows& packed) {
  Matrix out(packed.rows, packed.cols, MemoryUse::workspace, nullptr);
  for (std::int64_t r = 0; r < packed.rows; ++r) {
    float* row = out.view().row(r);
    for (std::int64_t c = 0; c < packed.cols; ++c) {
      row[c] = decode_value(packed.row(r), packed.format, packed.cols, c);
    }
  }
  return out;
}

}  // namespace heliograph
