#pragma once

#include <cstdint>

#include "layers/composition.hpp"

namespace heliograph {

/// Graph attention (GAT: Velickovic et al., 2018, equations 3 to 6) over the rows z of a linear
/// map, with one block of columns for each head. Node i sums its in-neighbours and itself with the
/// weights softmax_j(LeakyReLU(target . z_i + source . z_j)), in each head; y holds the heads side
/// by side, or their mean, plus an optional bias. Weights of edges are not used.
///
/// Ranks exchange rows of z with their exact scores source . z_j, so every softmax is exact, and
/// backward rows of dL/dy with the exact scores, logarithms of totals and products that a source
/// needs to compute its gradient. No weight is stored (docs/models.md).
class Attend final : public Step {
 public:
  struct Options {
    ValueId z = kNoValue;
    int heads = 1;         ///< Divides the columns of z.
    bool average = false;  ///< y is the mean of the heads.
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
  /// Columns [part * heads, (part + 1) * heads) of scores_, for all these rows.
  MatrixView score(const Pass& pass, int part) const;
  AttentionSums sums(const Pass& pass, MatrixView positive, MatrixView other) const;
  Attention attention(const Pass& pass, Direction direction) const;
  /// The dropout of a block's entries, of which the targets computed their outputs in `epoch`.
  EdgeDropout dropout(const Pass& pass, Direction direction, bool halo, std::int64_t epoch) const;
  /// The sums of a site's inner and halo blocks over rows x with these exact columns.
  void sum(const Pass& pass, const Site& site, Attention a, ConstMatrixView x,
           ConstMatrixView exact, const AttentionSums& sums) const;
  /// The heads' outputs side by side.
  MatrixView heads_output(const Pass& pass) const;

  Options options_;
  std::int64_t cols_, out_;  ///< Columns of z and of y.
  ValueId y_;
  int source_, target_, bias_ = -1;
  int forward_site_, backward_site_;
  Saved scores_;    ///< s, t, L and r, each with a column for each head.
  Saved positive_;  ///< Sums over entries with scores above 0, normalised.
  Saved share_;     ///< Totals of these entries, normalised.
  Saved heads_;     ///< The heads' outputs, if y is their mean.
  Scratch totals_, positive64_, other64_;
  Scratch positive_gradient_, target_gradient_;
};

}  // namespace heliograph
