#pragma once

#include <type_traits>

namespace heliograph::cuda {

/// Calls body(integral_constant of bits).
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
