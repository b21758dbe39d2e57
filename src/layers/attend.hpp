#pragma once

#include <cstdint>

#include "layers/attention_step.hpp"

namespace heliograph {

/// Graph attention (GAT: Velickovic et al., 2018, equations 3 to 6) over the rows z = x W, with one
/// block of columns for each head. Node i sums its in-neighbours and itself with the weights
/// softmax_j(LeakyReLU(target . z_i + source . z_j)), in each head; y holds the heads side by side,
/// or their mean, plus an optional bias. Weights of edges are not used.
///
/// Ranks exchange rows of z with their exact scores source . z_j, so every softmax is exact, and
/// backward rows of dL/dy with the exact scores, logarithms of totals and products that a source
/// needs to compute its gradient. If x has the rows of halo nodes too, each rank multiplies those
/// itself, and nothing is exchanged. No weight is stored (docs/models.md).
class Attend final : public AttentionStep {
 public:
  Attend(Declare& declare, const Options& options);

  void offer(const Pass& pass, RowRange rows) override;
  void gather(const Pass& pass) override;
  void forward(const Pass& pass, RowRange rows) override;
  void backward_offer(const Pass& pass, RowRange rows) override;
  void backward(const Pass& pass) override;
  void backward_rows(const Pass& pass, RowRange rows) override;
  void end_backward(const Pass& pass) override;

 private:
  MatrixView z(const Pass& pass) const { return pass.saved(z_).col_range(0, options_.cols); }
  /// source . z_j of each row of z.
  MatrixView source_scores(const Pass& pass) const {
    return pass.saved(z_).col_range(options_.cols, options_.heads);
  }
  /// Columns [part * heads, (part + 1) * heads) of scores_.
  MatrixView score(const Pass& pass, int part) const {
    return pass.saved(scores_).col_range(std::int64_t{part} * options_.heads, options_.heads);
  }
  /// The sums of all rows.
  AttentionSums sums(const Pass& pass, Direction direction) const;
  Attention attention(const Pass& pass, Direction direction) const;
  void sum_inner(const Pass& pass, Direction direction, ConstMatrixView x,
                 ConstMatrixView exact) const;
  /// With has_halo: the rows z of halo nodes as another rank would send them at 32 bits.
  PackedRows own_halo(const Pass& pass) const;
  /// Adds the halo's part, of which targets computed their outputs in `epoch`, to the sums of these
  /// rows or, with the first range, of all rows, if Halo::received has none.
  void add_halo(const Pass& pass, Direction direction, std::int64_t epoch, RowRange rows) const;
  /// Adds what the gradient of scores owes to the difference between the sources that halo targets
  /// had and those of this pass: with `sign` -1 before add_halo in backward, and with 1 after it.
  void add_rounding(const Pass& pass, float sign, RowRange rows) const;
  /// Backward's sums of the halo nodes as sources, over this rank's targets.
  void sum_halo_sources(const Pass& pass) const;
  /// Makes these rows of dL/dz from complete sums.
  void source_gradient(const Pass& pass, RowRange rows) const;

  int weight_, source_, target_;
  Saved z_;         ///< z and the source scores.
  Saved scores_;    ///< t, L and r, each with a column for each head.
  Saved positive_;  ///< Sums over entries with scores above 0, normalised.
  Saved share_;     ///< Totals of these entries, normalised.
  Scratch totals_, positive64_, other64_;
  Scratch positive_gradient_, gradient_, target_gradient_;
};

}  // namespace heliograph
