#pragma once

#include <vector>

#include "heliograph/options.hpp"
#include "layers/composition.hpp"

namespace heliograph {

/// Joins the outputs of several layers (jumping knowledge: Xu et al., 2018, section 4.1): side by
/// side, or their maximum or sum element by element.
class Join final : public Step {
 public:
  Join(Declare& declare, const std::vector<ValueId>& parts, JumpingKnowledge how);

  void forward(const Pass& pass, RowRange rows) override;
  /// Of equal greatest elements the first takes the gradient.
  void backward_rows(const Pass& pass, RowRange rows) override;

 private:
  std::vector<ValueId> parts_;
  JumpingKnowledge how_;
  ValueId out_;
};

}  // namespace heliograph
