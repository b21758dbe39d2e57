#pragma once

#include <array>
#include <optional>

#include "heliograph/options.hpp"
#include "layers/composition.hpp"

namespace heliograph {

// Only this header and its .cpp know what a model's name stands for.

/// What the first layer reads: the features, and what is gathered once of neighbours: their first
/// aggregation A x if it is precomputed, or with attention the rows of inner nodes, then of halo
/// nodes.
struct ModelInput {
  FeatureView x;
  std::optional<FeatureView> gathered;

  /// Both inputs, in the order of the composition's inputs; an empty view if nothing is gathered.
  std::array<FeatureView, 2> values() const { return {x, gathered ? *gathered : FeatureView{}}; }
};

/// How the model's layers sum the rows of neighbours: GraphSAGE by Hamilton et al. (2017),
/// algorithm 1 with the mean aggregator; GIN by Xu et al. (2019), equation 4.1; all others but
/// those of attention by Kipf and Welling (2017), equation 2.
Propagation propagation_of(const ModelOptions& options);

/// Whether the features' first aggregation is made once, before the first epoch: if the options
/// allow it and the first layer only multiplies the features' sums by a weight.
bool precomputes(const ModelOptions& options);

/// Whether each rank fetches the features of its halo once and multiplies them itself, so that the
/// first layer of attention exchanges nothing.
bool fetches_features(const ModelOptions& options);

/// Whether the first layer sums neighbours' features, or their products, in every epoch.
bool exchanges_features(const ModelOptions& options);

/// Whether an epoch of training exchanges rows.
bool exchanges_rows(const ModelOptions& options);

/// Whether a model with these options reads the features themselves as well as what is gathered.
bool reads_features(const ModelOptions& options, std::int64_t features, bool sparse_features);

/// Whether the layers sum neighbours. Those of appnp and dagnn are an MLP; gcnii has layers of its
/// own.
bool convolves(const ModelOptions& options);

/// Whether the layers weigh neighbours by attention.
bool attends(const ModelOptions& options);
/// The fewest bits that rows which the model exchanges may have.
Bits fewest_bits(const ModelOptions& options);

/// Whether the logits are the mean of heads of attention.
bool averages_logits(const ModelOptions& options);

/// Whether a final linear map makes the logits, and not the last layer.
bool maps_output(const ModelOptions& options);

/// How a final linear map reads the outputs of all layers; jknet has one by default.
JumpingKnowledge joined_by(const ModelOptions& options);

/// The norm of hidden layers, which is never `automatic`: by default that of the published form.
NormLayer norm_of(const ModelOptions& options);

/// Heads of attention in the layer that makes the logits.
int output_heads_of(const ModelOptions& options);

/// Whether a layer adds its input to its output with Residual::identity.
bool adds_residuals(const ModelOptions& options, std::int64_t features, bool sparse_features);

/// The model's steps, as docs/models.md describes them. Dropout acts on the input of every product,
/// so ranks exchange rows after dropout. A precomputed first aggregation has a dropout mask of its
/// own. `fp64_sums`, `partial_sums`: as for Composition.
Composition compose(const ModelOptions& options, const ModelInput& input, std::int64_t classes,
                    bool fp64_sums, bool partial_sums);

}  // namespace heliograph
