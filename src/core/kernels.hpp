#pragma once

#include <cstdint>
#include <memory>

#include "core/buffer.hpp"
#include "core/csr.hpp"
#include "core/device.hpp"
#include "core/gather_blocks.hpp"
#include "core/matrix.hpp"
#include "core/packed_rows.hpp"

namespace heliograph {

/// Counter-based dropout of one matrix: element (row, col) is kept by the key of the row's node.
struct Dropout {
  std::uint32_t threshold = 0;  ///< Dropped if noise16 < threshold: probability threshold / 2^16.
  std::uint64_t stream = 0;     ///< stream_key() with Purpose::dropout.
  const std::int64_t* global_ids = nullptr;  ///< By row.

  bool active() const { return threshold != 0; }
  float scale() const { return 65536.0F / static_cast<float>(65536 - threshold); }
};

/// Parameters and saved statistics of bias, LayerNorm (Ba, Kiros and Hinton, 2016), ReLU,
/// residual and dropout, which are one pass over the rows.
struct NormAct {
  const float* bias = nullptr;   ///< cols.
  const float* gain = nullptr;   ///< cols; null: no LayerNorm.
  const float* shift = nullptr;  ///< cols.
  float* mean = nullptr;         ///< rows; written forward, read backward.
  float* rstd = nullptr;         ///< rows.
  Dropout dropout;
};

/// Column sums that a NormAct backward produces, each `cols` long.
struct NormActGradients {
  GradientView bias, gain, shift;  ///< gain and shift unset without LayerNorm.
};

/// Adam's state for one parameter (Kingma and Ba, 2015, algorithm 1).
struct AdamStep {
  float lr, beta1, beta2, epsilon;
  float bias_correction1, bias_correction2;  ///< 1 - beta^t.
  float weight_decay;
  float gradient_scale;  ///< Clipping.
};

/// Every kernel of the engine, declared once; each device defines all of them. Calls are made by
/// one thread, in order, and are done as Device says. What they read and write (scales, ids and
/// parameters too) lies in memory of their device. `reproducible` kernels sum in fp64 and need an
/// accumulator where one is passed.
class Kernels {
 public:
  virtual ~Kernels() = default;

  /// Lives as long as the kernels.
  virtual Device& device() = 0;
  virtual bool reproducible() const = 0;

  /// While true, products are fp32 whatever the kernels were made with.
  virtual void set_exact(bool /*exact*/) {}

  /// c = a b or c += a b.
  virtual void gemm(ConstMatrixView a, ConstMatrixView b, bool transpose_b, bool accumulate,
                    MatrixView c) = 0;
  /// Whether gemm_bias is one pass over c: then a bias is better added with a product than behind
  /// what is summed into c after it.
  virtual bool adds_bias_in_products() const { return false; }
  /// c = a b + bias or c += a b + bias, with bias (c.cols values) added to every row, last.
  virtual void gemm_bias(ConstMatrixView a, ConstMatrixView b, bool accumulate, const float* bias,
                         MatrixView c) = 0;
  /// g = a^T d.
  virtual void gemm_gradient(ConstMatrixView a, ConstMatrixView d, GradientView g) = 0;
  /// c = x b or c += x b with sparse x.
  virtual void spmm(const SparseView& x, ConstMatrixView b, bool accumulate, MatrixView c) = 0;
  /// g = x^T d, columns in parallel; `values` are those of the row-wise array.
  virtual void spmm_gradient(const SparseColumnsView& x, const float* values, ConstMatrixView d,
                             GradientView g) = 0;

  /// Blocks that speed up aggregation with `csr`, for CsrView::blocks; empty where none would.
  virtual GatherBlocks gather_blocks(const CsrView& csr, std::int64_t sources, MemoryUse use,
                                     MemoryAccount* account) = 0;

  /// out[i] = row_scale[i] * (self * x'[i] + sum over j in row i of x'[j]),
  /// where x'[j] = col_scale[j] * x[j], rounded to fp32 (null scales count as 1).
  /// The sum begins with self * x'[i], rounded, or 0 where self is 0.
  /// With an accumulator: acc[i] takes the unscaled fp64 sum and out[i] = float(row_scale[i] *
  /// acc[i]). out: csr.rows x cols. Any width; out must not overlap x. Scales and columns are
  /// trusted.
  virtual void aggregate_inner(const CsrView& csr, ConstMatrixView x, const float* col_scale,
                               float self, const float* row_scale, MatrixView out,
                               AccumulatorView acc) = 0;
  /// The same, without an accumulator, on x' rounded to the nearest bf16 (ties to even): `stored`
  /// takes these rows, so that half the bytes are gathered; sums are fp32. stored: x.rows x x.cols,
  /// rows padded_stride<std::uint16_t>() apart, overwritten.
  virtual void aggregate_inner_bf16(const CsrView& csr, ConstMatrixView x, const float* col_scale,
                                    float self, const float* row_scale, MatrixView out,
                                    Bf16View stored) = 0;
  /// out[i] += row_scale[i] * (sum over j in row i of decode(packed.row(j))), straight from packed
  /// rows, into columns [packed.col_begin, packed.col_begin + packed.cols) of out.
  /// With an accumulator: acc[i] += the fp64 sum, out[i] = float(row_scale[i] * acc[i]).
  /// Rows without entries are left alone.
  virtual void aggregate_halo(const CsrView& csr, const PackedRows& packed, const float* row_scale,
                              MatrixView out, AccumulatorView acc) = 0;

  /// out = dropout(relu(norm(y + bias)) + residual); residual.data may be null. out is not y.
  virtual void norm_act_forward(ConstMatrixView y, const NormAct& p, ConstMatrixView residual,
                                MatrixView out) = 0;
  /// d: on entry dL/d out, on return dL/dy. residual_gradient (data may be null) takes what flows
  /// into the residual.
  virtual void norm_act_backward(ConstMatrixView y, const NormAct& p, MatrixView d,
                                 MatrixView residual_gradient, const NormActGradients& g) = 0;
  /// y += bias.
  virtual void add_bias(MatrixView y, const float* bias) = 0;
  /// g[c] = sum over rows of d[., c].
  virtual void column_sums(ConstMatrixView d, GradientView g) = 0;
  /// a += b.
  virtual void add(MatrixView a, ConstMatrixView b) = 0;
  /// out = dropout(x).
  virtual void dropout(ConstMatrixView x, const Dropout& dropout, MatrixView out) = 0;
  /// out[i] = dropout of the sparse entry i, keyed by its node and column.
  virtual void dropout_values(const SparseView& x, const Dropout& dropout, float* out) = 0;

  /// Cross-entropy of softmax over rows with weight: d = (softmax - onehot) * scale, or 0 where
  /// target[row] < 0. Returns the sum of losses (unscaled).
  virtual double softmax_cross_entropy(ConstMatrixView logits, const std::int32_t* target,
                                       float scale, MatrixView d) = 0;
  /// Binary cross-entropy over every class of rows with mask != 0; likewise.
  virtual double binary_cross_entropy(ConstMatrixView logits, const std::uint8_t* indicators,
                                      const std::uint8_t* mask, float scale, MatrixView d) = 0;

  /// One step on `count` values; the gradient is f32 or f64.
  virtual void adam(float* value, const GradientView& gradient, float* m, float* v,
                    const AdamStep& step) = 0;
};

/// `account` (may be null) counts their scratch and must outlive them.
std::unique_ptr<Kernels> make_cpu_kernels(int threads, bool reproducible,
                                          MemoryAccount* account = nullptr);

/// How CUDA kernels compute.
struct CudaOptions {
  /// Dense products may round their factors to TF32 (10 bits behind the leading one); sums stay
  /// fp32.
  bool tf32 = false;
};

/// On device `device % cuda_devices()`. Not reproducible ones. `threads`: of the device.
/// Throws Error(usage) where the build has no CUDA or the machine no device.
std::unique_ptr<Kernels> make_cuda_kernels(int device, int threads,
                                           const CudaOptions& options = {});

}  // namespace heliograph
