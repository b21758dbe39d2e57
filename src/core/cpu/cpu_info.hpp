#pragma once

#include <string>

namespace heliograph {

/// What this process runs on: the SIMD target of the kernels and of the fp64 matrix product, e.g.
/// "kernels AVX3, fp64 products avx512".
std::string simd_description();

}  // namespace heliograph
