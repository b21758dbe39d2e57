#pragma once

#include <cstdint>

#include "layers/composition.hpp"

namespace heliograph {

/// The dropout mask of a value: which elements training drops, by node and column.
struct DropoutMask {
  std::uint32_t threshold = 0;  ///< The probability of dropping an element, times 2^16.
  std::uint64_t key = 0;        ///< The mask's noise key, different from every other mask's.

  /// The mask's dropout for these rows; inactive in inference.
  Dropout of(const Pass& pass, RowRange rows) const;
};

/// Dropout (Srivastava et al., 2014) of a value, or of a sparse or dense input of the model.
class Drop final : public Step {
 public:
  Drop(Declare& declare, ValueId x, const DropoutMask& mask);

  void forward(const Pass& pass, RowRange rows) override;
  void backward(const Pass& pass) override;

 private:
  ValueId x_, out_;
  DropoutMask mask_;
  bool of_input_;
};

}  // namespace heliograph
