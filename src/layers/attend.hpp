#pragma once

#include <cstdint>

#include "layers/composition.hpp"

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
class Attend final : public Step {
 public:
  struct Options {
    ValueId x = kNoValue;
    /// Whether x is an input of the model with the rows of inner nodes, then those of halo nodes.
    bool has_halo = false;
    std::int64_t cols = 0;  ///< Columns of z.
    int heads = 1;          ///< Divides the columns of z.
    bool average = false;   ///< y is the mean of the heads.
    bool bias = false;
    float slope = 0.2F;         ///< Of LeakyReLU below 0.
    std::uint32_t dropout = 0;  ///< Of weights, with probability dropout / 2^16.
  };
  Attend(Declare& declare, const Options& options);

  void offer(const Pass& pass, RowRange rows) override;
  void gather(const Pass& pass) override;
  void forward(const Pass& pass, RowRange rows) override;
  void backward(const Pass& pass) override;

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
  /// The share of a head's output in y.
  float share() const { return options_.average ? 1.0F / static_cast<float>(options_.heads) : 1; }
  AttentionSums sums(const Pass& pass, MatrixView positive, MatrixView other) const;
  Attention attention(const Pass& pass, Direction direction) const;
  /// The dropout of a block's entries, of which the targets computed their outputs in `epoch`.
  EdgeDropout dropout(const Pass& pass, Direction direction, bool halo, std::int64_t epoch) const;
  void sum_inner(const Pass& pass, Direction direction, ConstMatrixView x, ConstMatrixView exact,
                 const AttentionSums& sums) const;
  void sum_halo_forward(const Pass& pass, const AttentionSums& sums) const;
  void sum_halo_backward(const Pass& pass, const AttentionSums& sums) const;
  /// Backward's sums of the halo nodes as sources, over this rank's targets.
  void sum_halo_sources(const Pass& pass, ConstMatrixView dy, const AttentionSums& sums) const;
  /// The heads' outputs side by side.
  MatrixView heads_output(const Pass& pass) const;

  Options options_;
  std::int64_t out_;  ///< Columns of y.
  ValueId y_;
  bool last_;  ///< x has no gradient.
  int weight_, source_, target_, bias_ = -1;
  int forward_site_ = -1, backward_site_ = -1;
  std::uint64_t dropout_key_;
  Saved z_;         ///< z and the source scores.
  Saved scores_;    ///< t, L and r, each with a column for each head.
  Saved positive_;  ///< Sums over entries with scores above 0, normalised.
  Saved share_;     ///< Totals of these entries, normalised.
  Saved heads_;     ///< The heads' outputs, if y is their mean or has a bias.
  Scratch totals_, positive64_, other64_;
  Scratch positive_gradient_, gradient_, target_gradient_;
};

}  // namespace heliograph
