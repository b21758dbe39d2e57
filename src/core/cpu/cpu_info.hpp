#pragma once

#include <string>

namespace heliograph {

/// The SIMD targets that this process chose for the kernels and for fp64 matrix products, such as
/// "kernels AVX3, fp64 products avx512".
std::string simd_description();

}  // namespace heliograph
