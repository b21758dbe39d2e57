#pragma once

#include <cstdint>

#include "layers/composition.hpp"

namespace heliograph {

/// The dropout of these rows by a mask; inactive in inference.
Dropout dropout_of(const DropoutMask& mask, const Pass& pass, RowRange rows);

/// Dropout (Srivastava et al., 2014) of a value, or of a sparse or dense input of the model.
class Drop final : public Step {
 public:
  Drop(Declare& declare, ValueId x, const DropoutMask& mask);

  void forward(const Pass& pass, RowRange rows) override;
  void backward_rows(const Pass& pass, RowRange rows) override;

 private:
  ValueId x_, out_;
  DropoutMask mask_;
  bool of_input_;
};

}  // namespace heliograph
