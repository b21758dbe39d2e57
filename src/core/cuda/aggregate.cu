#include <algorithm>

#include "core/cuda/aggregate.hpp"
#include "core/cuda/gather_rows.hpp"
#include "core/cuda/wide.hpp"

namespace heliograph::cuda {
namespace {

/// stored[r] = col_scale[r] * x[r] rounded to the nearest bf16, with 2^log_lanes lanes a row and
/// four columns a lane. Bound by the 6 bytes a value that it reads and writes.
__global__ void store_bf16_kernel(ConstMatrixView x, const float* col_scale, Bf16View stored,
                                  int log_lanes, bool wide) {
  const std::int64_t thread = global_thread();
  const std::int64_t row = thread >> log_lanes;
  if (row >= x.rows) return;
  const std::int64_t lanes = std::int64_t{1} << log_lanes;
  const float scale = col_scale == nullptr ? 1.0F : col_scale[row];
  const float* from = x.data + row * x.stride;
  std::uint16_t* to = stored.data + row * stored.stride;
  for (std::int64_t c = (thread & (lanes - 1)) * 4; c < x.cols; c += lanes * 4) {
    if (wide && c + 4 <= x.cols) {
      const auto values = load_wide<float, 4>(from + c);
      Wide<std::uint16_t, 4> halves;
      for (int i = 0; i < 4; ++i) halves.at[i] = nearest_bf16(scale * values.at[i]);
      *reinterpret_cast<Wide<std::uint16_t, 4>*>(to + c) = halves;
    } else {
      for (std::int64_t i = c; i < c + 4 && i < x.cols; ++i) to[i] = nearest_bf16(scale * from[i]);
    }
  }
}

GatherJob job_of(const CsrView& csr, const void* rows, std::int64_t pitch, std::int64_t cols,
                 MatrixView out) {
  GatherJob job;
  job.csr = csr;
  job.rows = static_cast<const std::byte*>(rows);
  job.pitch = pitch;
  job.cols = cols;
  job.out = out.data;
  job.out_stride = out.stride;
  return job;
}

}  // namespace

void aggregate_inner(Queue& queue, const CsrView& csr, ConstMatrixView x, const float* col_scale,
                     float self, const float* row_scale, MatrixView out) {
  GatherJob job = job_of(csr, x.data, x.stride * 4, x.cols, out);
  job.col_scale = col_scale;
  job.row_scale = row_scale;
  job.self = self;
  gather_fp32(queue, job);
}

void aggregate_inner_bf16(Queue& queue, const CsrView& csr, ConstMatrixView x,
                          const float* col_scale, float self, const float* row_scale,
                          MatrixView out, Bf16View stored) {
  int log_lanes = 0;
  while (log_lanes < 5 && (std::int64_t{4} << log_lanes) < x.cols) ++log_lanes;
  const bool wide = alignment_of(x.data, x.stride * 4, 16) == 16 &&
                    alignment_of(stored.data, stored.stride * 2, 8) == 8;
  if (x.cols > 0) {
    launch(queue, "store rows as bf16", store_bf16_kernel, cover(x.rows << log_lanes), x, col_scale,
           stored, log_lanes, wide);
  }
  GatherJob job = job_of(csr, stored.data, stored.stride * 2, x.cols, out);
  job.row_scale = row_scale;
  job.self = self;
  gather_bf16(queue, job);
}

}  // namespace heliograph::cuda
