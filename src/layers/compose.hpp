#pragma once

#include <array>
#include <optional>

#include "heliograph/options.hpp"
#include "layers/composition.hpp"

namespace heliograph {

/// What the first layer reads: the features, and their first aggregation where precomputed.
struct ModelInput {
  FeatureView x;
  std::optional<FeatureView> aggregated;

  /// As a composition's inputs.
  std::array<FeatureView, 2> values() const {
    return {x, aggregated ? *aggregated : FeatureView{}};
  }
};

// What a model's name stands for is known here alone.

/// How the model's layers sum rows of neighbours.
Propagation propagation_of(const ModelOptions& options);

/// Whether a model with these options reads the features themselves, not only their first
/// aggregation.
bool reads_features(const ModelOptions& options, std::int64_t features, bool sparse_features);

/// A stack of graph convolutions. Hidden layers: convolution, bias, LayerNorm, ReLU, residual; the
/// last: convolution and bias. Dropout acts on every layer's input, so what travels between ranks
/// is the dropped input; a precomputed first aggregation is dropped after it was made, with a mask
/// of its own.
Composition compose(const ModelOptions& options, const ModelInput& input, std::int64_t classes,
                    bool fp64_sums);

}  // namespace heliograph
