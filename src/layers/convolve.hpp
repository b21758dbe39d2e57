#pragma once

#include <cstdint>

#include "layers/composition.hpp"

namespace heliograph {

/// A graph convolution: y = A x W (GCN: Kipf and Welling, 2017, equation 2), y = x W_self + A x W
/// (GraphSAGE: Hamilton et al., 2017) or y = (A + e I) x W with a learned number e (GIN: Xu et al.,
/// 2019, equation 4.1), with an optional bias. A is the normalised adjacency of the pass's graph
/// operator. Ranks exchange rows of x, or of x W with `transform_first`.
class Convolve final : public Step {
 public:
  struct Options {
    ValueId x = kNoValue;
    std::int64_t out = 0;  ///< Columns of y.
    bool self_weight = false;
    bool epsilon = false;  ///< Learn e, which begins as 0; not with a self weight.
    bool bias = false;
    bool transform_first = false;  ///< Compute A (x W), not (A x) W.
  };
  Convolve(Declare& declare, const Options& options);

  void offer(const Pass& pass, RowRange rows) override;
  void gather(const Pass& pass) override;
  void forward(const Pass& pass, RowRange rows) override;
  void backward_offer(const Pass& pass, RowRange rows) override;
  void backward(const Pass& pass) override;
  void backward_rows(const Pass& pass, RowRange rows) override;
  void end_backward(const Pass& pass) override;

 private:
  /// The rows that forward sends to other ranks: x, or x W.
  ConstMatrixView exchanged(const Pass& pass) const;
  /// The rows that backward sends to other ranks: dL/d(A x), or dL/dy.
  ConstMatrixView pulled(const Pass& pass) const;
  /// Makes these rows of dL/d(A x).
  void make_sum_gradient(const Pass& pass, RowRange rows) const;
  /// y = x W_self, or y += x W_self if `accumulate`, for these rows.
  void multiply_self(const Pass& pass, RowRange rows, bool accumulate, const float* bias) const;
  const float* bias(const Pass& pass) const;
  bool self_adds_bias(const Pass& pass) const;
  /// The transformed rows: those that forward saves if the gradient of e needs them.
  MatrixView transformed(const Pass& pass) const;

  Options options_;
  std::int64_t in_;  ///< Columns of x.
  bool input_gradient_;
  ValueId y_;
  int weight_, self_weight_ = -1, epsilon_ = -1, bias_ = -1;
  int forward_site_ = -1, backward_site_ = -1;
  Saved sum_;                ///< A x.
  Scratch transformed_;      ///< x W, which `epsilon` saves.
  Saved saved_transformed_;  ///< x W.
  Scratch gradient_;         ///< dL/d(A x), or dL/d(x W).
  SumScratch sum_scratch_;
};

}  // namespace heliograph
