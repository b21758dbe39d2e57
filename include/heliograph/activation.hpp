#pragma once

#include <cstdint>

namespace heliograph {

/// A function of one value, which a layer applies to every element of its output.
enum class ActivationFunction : std::uint8_t {
  none,  ///< z
  relu,  ///< max(z, 0)
  gelu,  ///< z Phi(z), Phi the normal distribution function (Hendrycks and Gimpel, 2016).
  elu,   ///< z, or exp(z) - 1 if z < 0 (Clevert et al., 2016).
};

}  // namespace heliograph
