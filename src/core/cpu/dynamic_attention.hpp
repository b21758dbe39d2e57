#pragma once

#include "core/kernels.hpp"

// Dynamic attention of Kernels (core/kernels.hpp) over rows [begin, end): single-threaded, and
// compiled for every Highway target. `fp64` selects the type of the sums and of `memory`.

namespace heliograph::cpu {

/// Values of `memory` of dynamic_attention_rows.
inline std::int64_t dynamic_attention_values(const DynamicAttention& a) {
  return a.cols + 2 * std::int64_t{a.heads};
}
void dynamic_attention_rows(const DynamicAttention& a, MatrixView out, MatrixView log_total,
                            void* memory, bool fp64, std::int64_t begin, std::int64_t end);
/// Writes the gradient of the vector over these rows to the first a.cols values of `memory`, which
/// has 2 a.cols.
void dynamic_attention_target_rows(const DynamicAttention& a, MatrixView d_targets, void* memory,
                                   bool fp64, std::int64_t begin, std::int64_t end);
/// `memory` has a.cols values.
void dynamic_attention_source_rows(const DynamicAttention& a, MatrixView d_sources, void* memory,
                                   bool fp64, std::int64_t begin, std::int64_t end);

}  // namespace heliograph::cpu
