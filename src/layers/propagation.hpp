#pragma once

#include <cstdint>

namespace heliograph {

/// A power of a node's degree d, counted over the whole graph, its self weight included.
enum class DegreeScale : std::uint8_t {
  one,           ///< 1.
  inverse,       ///< 1 / d; 0 where d is 0.
  inverse_root,  ///< 1 / sqrt(d); 0 where d is 0.
};

/// How rows of neighbours are summed: R (S + self I) C, S the 0/1 structure, R and C diagonal.
struct Propagation {
  DegreeScale row = DegreeScale::one;  ///< R.
  DegreeScale col = DegreeScale::one;  ///< C.
  float self = 0;

  /// Values a node that its scales take.
  int scales() const {
    return (row != DegreeScale::one ? 1 : 0) + (col != DegreeScale::one ? 1 : 0);
  }
};

}  // namespace heliograph
