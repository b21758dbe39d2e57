#pragma once

#include <string>

#include "core/throw_error.hpp"

namespace heliograph {

/// What the user may do about NaN or Inf in epoch `epoch`, as the end of an error's sentence.
inline std::string overflow_advice(int epoch) {
  const char* const lower = "lower --lr, give --clip-norm, or use more --bits";
  const char* const scale =
      "the features (--normalize scales them) or edge weights may be too large; else ";
  return spell_options(std::string(epoch == 0 ? scale : "") + lower);
}

}  // namespace heliograph
