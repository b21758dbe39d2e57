#pragma once

#include <algorithm>
#include <vector>

#include "core/csr.hpp"
#include "core/matrix.hpp"
#include "core/packed_rows.hpp"
#include "support/decoded.hpp"

// The plain loops that define the aggregations of Kernels: fp32 sums in entry order.

namespace heliograph::cpu {
inline float entry_value(const CsrView& csr, std::int64_t e) {
  return csr.values == nullptr ? 1.0F : csr.values[e];
}

/// `term(v, s, x)` is what an entry with value v adds for a value x of a row with scale s.
template <class Term>
inline void aggregate_inner_as(const CsrView& csr, ConstMatrixView x, const float* col_scale,
                               float self, const float* row_scale, MatrixView out,
                               const Term& term) {
  std::vector<float> sums(static_cast<std::size_t>(x.cols));
  for (std::int64_t i = 0; i < csr.rows; ++i) {
    std::fill(sums.begin(), sums.end(), self == 0 ? 0.0F : -0.0F);  // -0 + x is x, even if x is -0
    const auto add = [&](std::int64_t j, float factor, float v) {
      const float* row = x.row(j);
      const float scale = col_scale == nullptr ? 1.0F : col_scale[j];
      for (float& sum : sums) sum += factor * term(v, scale, *row++);
    };
    if (self != 0) add(i, self, 1.0F);
    for (std::int64_t e = csr.offsets[i]; e < csr.offsets[i + 1]; ++e) {
      add(csr.columns[e], 1.0F, entry_value(csr, e));
    }
    const float scale = row_scale == nullptr ? 1.0F : row_scale[i];
    float* target = out.row(i);
    for (const float sum : sums) *target++ = scale * sum;
  }
}

inline void aggregate_inner_reference(const CsrView& csr, ConstMatrixView x, const float* col_scale,
                                      float self, const float* row_scale, MatrixView out) {
  aggregate_inner_as(csr, x, col_scale, self, row_scale, out,
                     [](float v, float scale, float value) { return (v * scale) * value; });
}

inline void aggregate_inner_bf16_reference(const CsrView& csr, ConstMatrixView x,
                                           const float* col_scale, float self,
                                           const float* row_scale, MatrixView out) {
  aggregate_inner_as(csr, x, col_scale, self, row_scale, out,
                     [](float v, float scale, float value) {
                       return v * bf16_to_float(nearest_bf16(scale * value));
                     });
}

inline void aggregate_halo_reference(const CsrView& csr, const PackedRows& packed,
                                     const float* row_scale, MatrixView out) {
  const Matrix halo = decoded(packed);
  std::vector<float> sums(static_cast<std::size_t>(packed.cols));
  for (std::int64_t i = 0; i < csr.rows; ++i) {
    if (csr.offsets[i] == csr.offsets[i + 1]) continue;
    std::fill(sums.begin(), sums.end(), 0.0F);
    for (std::int64_t e = csr.offsets[i]; e < csr.offsets[i + 1]; ++e) {
      const float value = entry_value(csr, e);
      const float* row = halo.view().row(csr.columns[e]);
      for (float& sum : sums) sum += value * *row++;
    }
    float* target = out.row(i) + packed.col_begin;
    const float scale = row_scale == nullptr ? 1.0F : row_scale[i];
    for (const float sum : sums) *target++ += scale * sum;
  }
}

}  // namespace heliograph::cpu
