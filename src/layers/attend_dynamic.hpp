#pragma once

#include "core/dynamic_attention.hpp"
#include "layers/attention_step.hpp"

namespace heliograph {

/// Graph attention with dynamic scores (GATv2: Brody, Alon and Yahav, 2022, equation 7) over the
/// rows s = x W_source and t = x W_target, with one block of columns for each head. Node i sums the
/// rows s of its in-neighbours and itself with the weights softmax_j(vector . LeakyReLU(s_j +
/// t_i)), in each head; y holds the heads side by side, or their mean, plus an optional bias.
/// Weights of edges are not used.
///
/// Ranks exchange rows of s and, backward, rows of t and dL/dy with exact logarithms of totals and
/// products of outputs and gradients, from which a source computes its gradient. If x has the rows
/// of halo nodes too, each rank multiplies those itself, and nothing is exchanged. Received rows
/// are decoded once; no weight is stored (docs/models.md).
class AttendDynamic final : public AttentionStep {
 public:
  AttendDynamic(Declare& declare, const Options& options);

  void offer(const Pass& pass, RowRange rows) override;
  void gather(const Pass& pass) override;
  void forward(const Pass& pass, RowRange rows) override;
  void backward_offer(const Pass& pass, RowRange rows) override;
  void backward(const Pass& pass) override;
  void backward_rows(const Pass& pass, RowRange rows) override;
  void end_backward(const Pass& pass) override;

 private:
  DynamicAttention attention(const Pass& pass) const;
  /// With targets as rows and all their neighbours' rows s as they were in this epoch's forward.
  DynamicAttention forward_attention(const Pass& pass, ConstMatrixView targets) const;
  /// Makes these rows of t and dL/d(heads), logarithms of totals and products: DynamicAttention's
  /// targets.
  void make_targets(const Pass& pass, RowRange rows) const;
  /// Receives the halo's targets, and restores the rows s from which these computed their outputs.
  void receive_targets(const Pass& pass) const;

  int source_weight_, target_weight_, vector_;
  Saved sources_;    ///< s of inner and halo nodes.
  Saved targets_;    ///< t.
  Saved log_total_;  ///< A column for each head.
  Scratch backward_targets_, halo_targets_, sent_;
  Scratch source_gradient_, target_gradient_;
};

}  // namespace heliograph
