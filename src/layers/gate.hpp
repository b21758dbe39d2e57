#pragma once

#include <vector>

#include "layers/composition.hpp"

namespace heliograph {

/// out = the sum over k of sigmoid(H_k s) H_k, where s is learned and each node has a score of its
/// own for each H_k (DAGNN's adaptive adjustment: Liu et al., 2020, equation 9).
class Gate final : public Step {
 public:
  Gate(Declare& declare, const std::vector<ValueId>& parts);

  void forward(const Pass& pass, RowRange rows) override;
  void backward(const Pass& pass) override;

 private:
  std::vector<ValueId> parts_;
  ValueId out_;
  int score_weight_;
  Saved scores_;  ///< One row of scores for each H_k.
};

}  // namespace heliograph
