#pragma once

#include "core/attention.hpp"
#include "core/cuda/runtime.hpp"
#include "core/kernels.hpp"

// Attention of Kernels (core/kernels.hpp) on a CUDA device, with fp32 sums. All pointers are to
// device memory.

namespace heliograph::cuda {

// Sums over neighbours (attention.cu).

void attention_inner(Queue& queue, const CsrView& csr, const Attention& attention,
                     ConstMatrixView x, ConstMatrixView exact, const AttentionTotals<float>& sums);
void attention_halo(Queue& queue, const CsrView& csr, const Attention& attention,
                    const PackedRows& packed, const AttentionTotals<float>& sums);

// Row by row (attention_rows.cu).

void attention_scores(Queue& queue, ConstMatrixView x, const float* source, const float* target,
                      MatrixView s, MatrixView t);
void attention_output(Queue& queue, const AttentionTotals<float>& sums, int heads, MatrixView out,
                      MatrixView positive, MatrixView share, MatrixView log_total);
void attention_target_gradient(Queue& queue, ConstMatrixView d, float factor, float slope,
                               ConstMatrixView out, ConstMatrixView positive, ConstMatrixView share,
                               MatrixView r, MatrixView dt);
void attention_rounding(Queue& queue, const KeptRows& kept, RowRange rows, ConstMatrixView x,
                        int heads, float factor, float slope, const AttentionTotals<float>& sums);
/// `partials` has room for sum_parts(x.rows) x 2 x.cols values.
void attention_source_gradient(Queue& queue, ConstMatrixView x, const float* source,
                               const float* target, float factor, float slope,
                               const AttentionTotals<float>& sums, ConstMatrixView dt,
                               MatrixView dx, bool accumulate, float* partials, float* g_source,
                               float* g_target);

// With dynamic scores (dynamic_attention.cu).

void dynamic_attention(Queue& queue, const DynamicAttention& attention, MatrixView out,
                       MatrixView log_total);
/// `partials` has room for sum_parts(d_targets.rows) x attention.cols values.
void dynamic_attention_targets(Queue& queue, const DynamicAttention& attention,
                               MatrixView d_targets, float* partials, float* g_vector);
void dynamic_attention_sources(Queue& queue, const DynamicAttention& attention,
                               MatrixView d_sources);
void decode_rows(Queue& queue, const PackedRows& packed, const std::int32_t* nodes,
                 MatrixView values, MatrixView exact);

}  // namespace heliograph::cuda
