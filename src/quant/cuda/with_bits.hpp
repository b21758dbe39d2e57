#pragma once

#include <type_traits>

namespace heliograph::cuda {

/// Calls body with `bits`, one of 1, 2, 4, 8, 16 and 32, as an integral_constant.
template <class Body>
void with_bits(int bits, const Body& body) {
  switch (bits) {
    case 1:
      return body(std::integral_constant<int, 1>());
    case 2:
      return body(std::integral_constant<int, 2>());
    case 4:
      return body(std::integral_constant<int, 4>());
    case 8:
      return body(std::integral_constant<int, 8>());
    case 16:
      return body(std::integral_constant<int, 16>());
    default:
      return body(std::integral_constant<int, 32>());
  }
}

}  // namespace heliograph::cuda
