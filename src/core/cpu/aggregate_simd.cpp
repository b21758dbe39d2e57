#include "core/cpu/aggregate_rows.hpp"

namespace heliograph::cpu {
namespace {

CsrView row_range(const CsrView& csr, std::int64_t begin, std::int64_t end) {
  return {end - begin, csr.offsets + begin, csr.columns};
}

}  // namespace

void aggregate_inner_rows(const CsrView& csr, ConstMatrixView x, const float* col_scale, bool self,
                          const float* row_scale, MatrixView out, std::int64_t begin,
                          std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    float* sum = out.row(i);
    for (std::int64_t c = 0; c < x.cols; ++c) sum[c] = 0;
    const auto add = [&](std::int64_t j) {
      const float scale = col_scale == nullptr ? 1.0F : col_scale[j];
      const float* source = x.row(j);
      for (std::int64_t c = 0; c < x.cols; ++c) sum[c] += scale * source[c];
    };
    if (self) add(i);
    for (std::int64_t e = csr.offsets[i]; e < csr.offsets[i + 1]; ++e) add(csr.columns[e]);
    if (row_scale == nullptr) continue;
    for (std::int64_t c = 0; c < x.cols; ++c) sum[c] *= row_scale[i];
  }
}

void aggregate_halo_rows(const CsrView& csr, const PackedRows& packed, const float* row_scale,
                         MatrixView out, std::int64_t begin, std::int64_t end) {
  aggregate_halo_reference(row_range(csr, begin, end), packed,
                           row_scale == nullptr ? nullptr : row_scale + begin,
                           out.row_range(begin, end - begin));
}

}  // namespace heliograph::cpu
