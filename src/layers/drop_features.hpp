#pragma once

#include <cstdint>

#include "layers/composition.hpp"

namespace heliograph {

/// Which elements of a value training drops, by node and column.
struct DropoutMask {
  std::uint32_t threshold = 0;  ///< Probability times 2^16.
  std::uint64_t key = 0;        ///< Of the mask, unlike any other's: site_key (core/noise.hpp).

  /// Of these rows; not active in inference.
  Dropout of(const Pass& pass, RowRange rows) const;
};

/// Dropout of an input of the model, sparse or dense.
class DropFeatures final : public Step {
 public:
  DropFeatures(Declare& declare, ValueId input, const DropoutMask& mask);

  void forward(const Pass& pass, RowRange rows) override;
  /// Nobody needs an input's gradient.
  void backward(const Pass& /*pass*/) override {}

 private:
  ValueId input_, out_;
  DropoutMask mask_;
};

}  // namespace heliograph
