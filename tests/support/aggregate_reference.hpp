#pragma once

#include "core/csr.hpp"
#include "core/matrix.hpp"
#include "core/packed_rows.hpp"

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
  for (std::int64_t i = 0; i < csr.rows; ++i) {
    for (std::int64_t c = 0; c < x.cols; ++c) {
      const auto value = [&](std::int64_t j, float v) {
        return term(v, col_scale == nullptr ? 1.0F : col_scale[j], x.row(j)[c]);
      };
      float sum = self == 0 ? 0.0F : self * value(i, 1.0F);
      for (std::int64_t e = csr.offsets[i]; e < csr.offsets[i + 1]; ++e) {
        sum += value(csr.columns[e], entry_value(csr, e));
      }
      out.row(i)[c] = row_scale == nullptr ? sum : row_scale[i] * sum;
    }
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
  for (std::int64_t i = 0; i < csr.rows; ++i) {
    if (csr.offsets[i] == csr.offsets[i + 1]) continue;
    float* target = out.row(i) + packed.col_begin;
    for (std::int64_t c = 0; c < packed.cols; ++c) {
      float sum = 0;
      for (std::int64_t e = csr.offsets[i]; e < csr.offsets[i + 1]; ++e) {
        sum += entry_value(csr, e) *
               decode_value(packed.row(csr.columns[e]), packed.format, packed.cols, c);
      }
      target[c] += row_scale == nullptr ? sum : row_scale[i] * sum;
    }
  }
}

}  // namespace heliograph::cpu
