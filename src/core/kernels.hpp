#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/attention.hpp"
#include "core/buffer.hpp"
#include "core/csr.hpp"
#include "core/device.hpp"
#include "core/dynamic_attention.hpp"
#include "core/gather_blocks.hpp"
#include "core/matrix.hpp"
#include "core/packed_rows.hpp"
#include "heliograph/activation.hpp"

namespace heliograph {

/// Dropout of one matrix, in which the noise of the row's node and the column decides (noise.hpp).
struct Dropout : DropoutRate {
  std::uint64_t stream = 0;                  ///< stream_key() with Purpose::dropout.
  const std::int64_t* global_ids = nullptr;  ///< Global node id of each row.

  bool active() const { return threshold != 0; }
};

/// Parameters and saved statistics of the fused pass of bias, normalisation, activation function,
/// residual and dropout over a rows x cols matrix. LayerNorm (Ba, Kiros & Hinton 2016, eq. 3)
/// normalises rows; BatchNorm (Ioffe & Szegedy 2015, algorithm 1) normalises columns.
struct NormAct {
  const float* bias = nullptr;   ///< cols values, or null for none.
  const float* gain = nullptr;   ///< cols values; null turns normalisation off.
  const float* shift = nullptr;  ///< cols values.
  /// LayerNorm: rows values, which forward writes and backward reads. BatchNorm: cols values, which
  /// both read.
  float* mean = nullptr;
  float* rstd = nullptr;   ///< 1 / sqrt(variance + 1e-5); as `mean`.
  bool by_column = false;  ///< Whether the normalisation is BatchNorm.
  ActivationFunction activation = ActivationFunction::relu;
  Dropout dropout;
};

/// Gradients of a NormAct's parameters, each `cols` long. Those of parameters that it lacks are
/// unset.
struct NormActGradients {
  GradientView bias, gain, shift;
  bool accumulate = false;  ///< Whether sums over rows begin with what these hold.
};

/// Scalars of step t of Adam (Kingma & Ba 2015, algorithm 1).
struct AdamStep {
  float lr, beta1, beta2, epsilon;
  float bias_correction1, bias_correction2;  ///< 1 - beta1^t and 1 - beta2^t.
  float weight_decay;                        ///< L2 penalty, added to the gradient.
  float gradient_scale;                      ///< Factor of the gradient, from norm clipping.
  /// Share of the value that the step takes away (AdamW: the learning rate times the decay).
  float decoupled_decay = 0.0F;
};

/// What softmax_cross_entropy trains towards. With C classes, the loss of a row of class t is
/// (1 - smoothing) w_t (-log p_t) + smoothing / C * (sum over classes c of w_c (-log p_c)), that of
/// PyTorch's CrossEntropyLoss(weight, label_smoothing) before its reduction.
struct ClassTargets {
  const std::int32_t* class_of;    ///< Class of each row; rows below 0 do not count.
  const float* weights = nullptr;  ///< w, one for each class; null: all are 1.
  float smoothing = 0.0F;          ///< At least 0, below 1.
};

/// On a CPU, sums over rows add the sums of tiles of so many rows in order, so blocks of whole
/// tiles change no bit of them.
inline constexpr std::int64_t kRowTile = 256;

/// Every kernel of the engine; each device defines all of them. One thread makes all calls; they
/// are done in order, as Device describes. All that they read or write, including scales, ids and
/// parameters, lies in memory of their device. `reproducible` kernels sum in fp64 and need every
/// accumulator argument.
class Kernels {
 public:
  virtual ~Kernels() = default;

  /// The kernels' device, which lives as long as they do.
  virtual Device& device() = 0;
  /// Whether sums are fp64 and so independent of the number of ranks (`--reproducible`).
  virtual bool reproducible() const = 0;

  /// While true, products are exact fp32 even if the kernels were made with TF32.
  virtual void set_exact(bool /*exact*/) {}

  /// c = a b, or c += a b to accumulate; with `transpose_b`, b is given as its transpose.
  virtual void gemm(ConstMatrixView a, ConstMatrixView b, bool transpose_b, bool accumulate,
                    MatrixView c) = 0;
  /// Whether gemm_bias is one pass over c, so that a bias is best added with the product.
  virtual bool adds_bias_in_products() const { return false; }
  /// c = a b + bias, or c += a b + bias to accumulate; `bias`, c.cols values, is added last.
  virtual void gemm_bias(ConstMatrixView a, ConstMatrixView b, bool accumulate, const float* bias,
                         MatrixView c) = 0;
  /// g = a^T d: a.cols x d.cols.
  virtual void gemm_gradient(ConstMatrixView a, ConstMatrixView d, GradientView g) = 0;
  /// c = x b, or c += x b to accumulate, with sparse x.
  virtual void spmm(const SparseView& x, ConstMatrixView b, bool accumulate, MatrixView c) = 0;
  /// g = x^T d: x.cols x d.cols. `values` are those of the SparseView that x is made from.
  virtual void spmm_gradient(const SparseColumnsView& x, const float* values, ConstMatrixView d,
                             GradientView g) = 0;

  /// Blocks that speed up aggregation with `csr`, for CsrView::blocks; empty if none would.
  virtual GatherBlocks gather_blocks(const CsrView& csr, std::int64_t sources, MemoryUse use,
                                     MemoryAccount* account) = 0;

  /// out[i] = row_scale[i] * (self * x'[i] + sum over entries (j, v) of row i of v x'[j]), where
  /// x'[j] = col_scale[j] * x[j] rounded to fp32; null scales and values count as 1. If entries
  /// have values, fp32 sums round v * col_scale[j] before they multiply x[j]. The sum begins with
  /// self * x'[i] rounded, or with 0 if self is 0. With an accumulator, acc[i] becomes the unscaled
  /// fp64 sum and out[i] = float(row_scale[i] * acc[i]). out: csr.rows x x.cols, must not overlap
  /// x. Scales and column indices are not checked.
  virtual void aggregate_inner(const CsrView& csr, ConstMatrixView x, const float* col_scale,
                               float self, const float* row_scale, MatrixView out,
                               AccumulatorView acc) = 0;
  /// aggregate_inner with x' rounded to the nearest bf16 (ties to even), which halves the bytes
  /// that are gathered; sums are fp32. `stored` takes x': x.rows x x.cols, with row stride
  /// padded_stride<std::uint16_t>().
  virtual void aggregate_inner_bf16(const CsrView& csr, ConstMatrixView x, const float* col_scale,
                                    float self, const float* row_scale, MatrixView out,
                                    Bf16View stored) = 0;
  /// out[i] += row_scale[i] * (sum over entries (j, v) of row i of v decode(packed.row(j))) in
  /// columns [packed.col_begin, packed.col_begin + packed.cols) of out; no fp32 copy of the rows is
  /// made.
  /// With an accumulator, acc[i] += the fp64 sum and out[i] = float(row_scale[i] * acc[i]).
  /// Rows without entries are not changed.
  virtual void aggregate_halo(const CsrView& csr, const PackedRows& packed, const float* row_scale,
                              MatrixView out, AccumulatorView acc) = 0;

  /// out = dropout(activation(norm(y + bias)) + residual); residual.data may be null. out must not
  /// be y.
  virtual void norm_act_forward(ConstMatrixView y, const NormAct& p, ConstMatrixView residual,
                                MatrixView out) = 0;
  /// Turns d from dL/dout into dL/dy; with BatchNorm into dL/dnorm(y), from which
  /// batch_norm_backward makes dL/dy. residual_gradient becomes dL/dresidual; its data may be null.
  virtual void norm_act_backward(ConstMatrixView y, const NormAct& p, MatrixView d,
                                 MatrixView residual_gradient, const NormActGradients& g) = 0;
  /// Adds the sums over rows of y - center and of its square to sums[0, cols) and sums[cols,
  /// 2 cols), which lie on the host. center: cols values.
  virtual void column_moments(ConstMatrixView y, const float* center, std::span<double> sums) = 0;
  /// BatchNorm's d = gain rstd (d - shift_mean - (y - mean) rstd gain_mean). gain_mean, shift_mean:
  /// gradients of gain and shift over all ranks, divided by the number of rows; cols values each.
  virtual void batch_norm_backward(ConstMatrixView y, const NormAct& p, const float* gain_mean,
                                   const float* shift_mean, MatrixView d) = 0;
  /// g[c] = sum over rows of d[., c].
  virtual void column_sums(ConstMatrixView d, GradientView g) = 0;
  /// y = alpha x + beta y; y is not read if beta is 0.
  virtual void axpby(float alpha, ConstMatrixView x, float beta, MatrixView y) = 0;
  /// a += b.
  void add(MatrixView a, ConstMatrixView b) { axpby(1, b, 1, a); }
  /// y += bias, cols values.
  void add_bias(MatrixView y, const float* bias) { add(y, {bias, y.rows, y.cols, 0}); }
  /// y += *factor x.
  virtual void add_scaled(const float* factor, ConstMatrixView x, MatrixView y) = 0;
  /// g, one value, becomes the sum of a's elements times those of b.
  virtual void dot(ConstMatrixView a, ConstMatrixView b, GradientView g) = 0;
  /// score[r] = sigmoid(x[r] . s) and out[r] = score[r] x[r], or out[r] += score[r] x[r] to
  /// accumulate. s: cols values; score: rows values.
  virtual void gate_forward(ConstMatrixView x, const float* s, float* score, bool accumulate,
                            MatrixView out) = 0;
  /// From d = dL/dout: dx = dL/dx and g += dL/ds, or g = dL/ds unless it accumulates.
  virtual void gate_backward(ConstMatrixView x, const float* s, const float* score,
                             ConstMatrixView d, MatrixView dx, bool accumulate, GradientView g) = 0;
  /// s[r, h] = x_h . source_h and t[r, h] = x_h . target_h for row r of x and each head h, where
  /// x_h are the row's x.cols / heads columns of the head. source, target: x.cols values; s and t
  /// have a column for each head.
  virtual void attention_scores(ConstMatrixView x, const float* source, const float* target,
                                MatrixView s, MatrixView t) = 0;
  /// Overwrites `sums` with those of the entries of an inner block. x: the neighbours' rows; exact:
  /// their attention.exact_cols() exact columns.
  virtual void attention_inner(const CsrView& csr, const Attention& attention, ConstMatrixView x,
                               ConstMatrixView exact, const AttentionSums& sums) = 0;
  /// Adds the entries of a halo block to the sums, in those columns of a head's rows that `packed`
  /// has, and to the totals if packed.col_begin is 0; these come first. Forward, the first block
  /// raises the shift of rows and scales what they have summed so far, in all columns.
  virtual void attention_halo(const CsrView& csr, const Attention& attention,
                              const PackedRows& packed, const AttentionSums& sums) = 0;
  /// What forward's sums amount to, for each head: out = sum / total; positive = the sum of
  /// positive entries / total, which may be its place in `sums`; share = the total of positive
  /// entries / total; log_total = shift + ln total. The last three may be without data.
  virtual void attention_output(const AttentionSums& sums, int heads, MatrixView out,
                                MatrixView positive, MatrixView share, MatrixView log_total) = 0;
  /// Backward's rows of targets, where heads have the gradients factor * d of their outputs `out`,
  /// and d has columns of each head, or those of all heads if it is as wide as one: r[., h] =
  /// factor d_h . out_h, and dt[., h] = (1 - slope) (factor d_h . positive_h - share[., h] r[.,
  /// h]). Without data, dt is not made, and positive and share are not read.
  virtual void attention_target_gradient(ConstMatrixView d, float factor, float slope,
                                         ConstMatrixView out, ConstMatrixView positive,
                                         ConstMatrixView share, MatrixView r, MatrixView dt) = 0;
  /// Adds factor <x~_h - x_h, positive_h + slope other_h> to the first `heads` columns of sums.rows
  /// for each head, where x~ is a row of `kept` and x the current row of its node, if that is one
  /// of `rows`. Called with -f before the halo's entries are added to backward's sums and with f
  /// after, it makes the gradient of scores that of the rows that other ranks had.
  virtual void attention_rounding(const KeptRows& kept, RowRange rows, ConstMatrixView x, int heads,
                                  float factor, float slope, const AttentionSums& sums) = 0;
  /// Row nodes[r] of `values` = decode_value() of the encoded columns of packed row r, in columns
  /// [packed.col_begin, packed.col_begin + packed.cols), and row nodes[r] of `exact` = its exact
  /// columns. Null nodes count as r; packed rows with a negative node are skipped. Either matrix
  /// may be without data.
  virtual void decode_rows(const PackedRows& packed, const std::int32_t* nodes, MatrixView values,
                           MatrixView exact) = 0;
  /// Backward's rows of sources x from `sums` over the rows d that attention_target_gradient had, r
  /// and dt. With u = factor (positive + other), q = factor (positive + slope other) and ds = x_h .
  /// q_h + what attention_rounding has added - (the total of positive entries + slope that of
  /// others) for each head:
  /// dx = u + source ds + target dt; g_source and g_target become the sums over rows of x ds and x
  /// dt, or are added to if `accumulate`, as if these rows came after those already summed. dx may
  /// be sums.f32.other.
  virtual void attention_source_gradient(ConstMatrixView x, const float* source,
                                         const float* target, float factor, float slope,
                                         const AttentionSums& sums, ConstMatrixView dt,
                                         MatrixView dx, bool accumulate, GradientView g_source,
                                         GradientView g_target) = 0;
  /// Attention with dynamic scores over the entries of both blocks, with targets as rows and
  /// sources as neighbours: out = the sum over entries of weight x D x source row, for each head,
  /// and log_total = L, which may be without data. Rows without entries become NaN.
  virtual void dynamic_attention(const DynamicAttention& attention, MatrixView out,
                                 MatrixView log_total) = 0;
  /// Its gradients at the targets, with the same rows and neighbours. With g = weight x (D d .
  /// source - r), the gradient of a score: d_targets = vector x the sum over entries of g
  /// LeakyReLU'(source + target), and g_vector becomes the sum over all entries of g
  /// LeakyReLU(source + target).
  virtual void dynamic_attention_targets(const DynamicAttention& attention, MatrixView d_targets,
                                         GradientView g_vector) = 0;
  /// Its gradients at the sources, which are the rows, and targets the neighbours: d_sources = the
  /// sum over entries of weight x D d + g vector LeakyReLU'(source + target).
  virtual void dynamic_attention_sources(const DynamicAttention& attention,
                                         MatrixView d_sources) = 0;
  /// out = the greater of out and x, element by element.
  virtual void max_forward(ConstMatrixView x, MatrixView out) = 0;
  /// Moves those elements of d into dx where x is the maximum `out`; dx is 0 elsewhere.
  virtual void max_backward(ConstMatrixView x, ConstMatrixView out, MatrixView d,
                            MatrixView dx) = 0;
  /// out = dropout(x).
  virtual void dropout(ConstMatrixView x, const Dropout& dropout, MatrixView out) = 0;
  /// out[i] = dropout of the value of sparse entry i, keyed by its node and column.
  virtual void dropout_values(const SparseView& x, const Dropout& dropout, float* out) = 0;

  /// Cross-entropy of the softmax of each row against its class, as ClassTargets says. d = the
  /// gradient of the row's loss * scale, or 0 if it does not count. Returns the sum of the unscaled
  /// losses.
  virtual double softmax_cross_entropy(ConstMatrixView logits, const ClassTargets& targets,
                                       float scale, MatrixView d) = 0;
  /// Binary cross-entropy of the sigmoid over all classes of rows with mask != 0; other rows do not
  /// count. indicators: rows x cols of 0 or 1. d = (sigmoid - indicator) * scale, or 0. Returns the
  /// sum of the unscaled losses.
  virtual double binary_cross_entropy(ConstMatrixView logits, const std::uint8_t* indicators,
                                      const std::uint8_t* mask, float scale, MatrixView d) = 0;

  /// Squared error of the only column of each row against target[row]; rows with a target of NaN do
  /// not count. d = 2 (value - target) * scale, or 0. Returns the sum of the unscaled losses.
  /// Errors are computed in fp64 by every kernel.
  virtual double squared_error(ConstMatrixView values, const float* target, float scale,
                               MatrixView d) = 0;

  /// mine[i] = the sum of the ranks' values from rank 0 on, of which `mine` holds those of `rank`,
  /// and `others` those of each other rank in order, `stride` values apart.
  virtual void sum_in_rank_order(float* mine, const float* others, std::int64_t count,
                                 std::int64_t stride, int rank, int ranks) = 0;
  /// *sum becomes the fp64 sum of the squares of all values of g.
  virtual void sum_of_squares(const GradientView& g, double* sum) = 0;
  /// One step of Adam on gradient.rows * gradient.cols values with moments m and v.
  virtual void adam(float* value, const GradientView& gradient, float* m, float* v,
                    const AdamStep& step) = 0;
};

/// The CPU's kernels, with a pool of `threads`. `account` counts their scratch and must outlive
/// them; it may be null.
std::unique_ptr<Kernels> make_cpu_kernels(int threads, bool reproducible,
                                          MemoryAccount* account = nullptr);

/// Options of the CUDA kernels.
struct CudaOptions {
  /// Whether dense products round their factors to TF32 (10 mantissa bits); sums stay fp32.
  bool tf32 = false;
  /// Ranks of this process. If there are several, they use the devices 0 to ranks - 1 (modulo the
  /// number of devices), which then get access to each other's memory.
  int ranks = 1;
};

/// Kernels on CUDA device `device % cuda_devices()`, with a pool of `threads` CPU threads. They are
/// not reproducible. Throws Error(usage) if the build has no CUDA or the machine no device.
std::unique_ptr<Kernels> make_cuda_kernels(int device, int threads,
                                           const CudaOptions& options = {});

}  // namespace heliograph
