#include <algorithm>

#include "core/cpu/aggregate_rows.hpp"

namespace heliograph::cpu {
namespace {

/// The value of entry e.
double value_of(const CsrView& csr, std::int64_t e) {
  return csr.values == nullptr ? 1.0 : static_cast<double>(csr.values[e]);
}

void scale_row(const double* acc, const float* row_scale, std::int64_t row, std::int64_t cols,
               float* out) {
  const double scale = row_scale == nullptr ? 1.0 : static_cast<double>(row_scale[row]);
  for (std::int64_t c = 0; c < cols; ++c) out[c] = static_cast<float>(scale * acc[c]);
}

}  // namespace

void add_decoded_row(const std::byte* row, RowFormat format, std::int64_t cols, double weight,
                     double* acc) {
  if (!format.is_codes()) {
    for (std::int64_t c = 0; c < cols; ++c) {
      acc[c] += weight * static_cast<double>(decode_value(row, format, cols, c));
    }
    return;
  }
  const RowParameters p = read_parameters(row, format);
  const double minimum = static_cast<double>(p.minimum);
  const double step = static_cast<double>(p.step);
  const std::byte* codes = row + format.parameter_bytes();
  for (std::int64_t c = 0; c < cols; ++c) {
    acc[c] +=
        weight * (minimum + static_cast<double>(read_code(codes, format.bits, cols, c)) * step);
  }
}

void aggregate_inner_rows_fp64(const CsrView& csr, ConstMatrixView x, const float* col_scale,
                               float self, const float* row_scale, MatrixView out,
                               AccumulatorView acc, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    double* sum = acc.row(i);
    std::fill_n(sum, x.cols, 0.0);
    const auto add = [&](std::int64_t j, double weight) {
      const float scale = col_scale == nullptr ? 1.0F : col_scale[j];
      const float* source = x.row(j);
      for (std::int64_t c = 0; c < x.cols; ++c) {
        sum[c] += weight * static_cast<double>(scale * source[c]);
      }
    };
    if (self != 0) add(i, static_cast<double>(self));
    for (std::int64_t e = csr.offsets[i]; e < csr.offsets[i + 1]; ++e) {
      add(csr.columns[e], value_of(csr, e));
    }
    scale_row(sum, row_scale, i, x.cols, out.row(i));
  }
}

void aggregate_halo_rows_fp64(const CsrView& csr, const PackedRows& packed, const float* row_scale,
                              MatrixView out, AccumulatorView acc, std::int64_t begin,
                              std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    if (csr.offsets[i] == csr.offsets[i + 1]) continue;
    double* sum = acc.row(i) + packed.col_begin;
    for (std::int64_t e = csr.offsets[i]; e < csr.offsets[i + 1]; ++e) {
      add_decoded_row(packed.row(csr.columns[e]), packed.format, packed.cols, value_of(csr, e),
                      sum);
    }
    scale_row(sum, row_scale, i, packed.cols, out.row(i) + packed.col_begin);
  }
}

}  // namespace heliograph::cpu
