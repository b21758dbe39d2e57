#include "layers/compose.hpp"

#include <cmath>
#include <string>

#include "layers/activation.hpp"
#include "layers/convolve.hpp"
#include "layers/drop_features.hpp"

namespace heliograph {

namespace {

/// Noise keys of the dropout masks of the model's two inputs. No activation is dropped in layer 0
/// or in a backward pass, so no other mask has these keys.
constexpr std::uint64_t kFeatureMask = site_key(0, Direction::forward);
constexpr std::uint64_t kAggregatedMask = site_key(0, Direction::backward);

}  // namespace

Propagation propagation_of(const ModelOptions& options) {
  switch (options.kind) {
    case ModelKind::gcn:  // Kipf and Welling, 2017, equation 2.
      return {DegreeScale::inverse_root, DegreeScale::inverse_root, 1.0F};
    case ModelKind::sage:  // Hamilton et al., 2017, algorithm 1 with the mean aggregator.
      return {DegreeScale::inverse, DegreeScale::one, 0.0F};
  }
  return {};
}

bool reads_features(const ModelOptions& options, std::int64_t features, bool sparse_features) {
  const bool residual =
      options.residual && options.layers > 1 && features == options.hidden && !sparse_features;
  return options.kind != ModelKind::gcn || !options.precompute || residual;
}

Composition compose(const ModelOptions& options, const ModelInput& input, std::int64_t classes,
                    bool fp64_sums) {
  const auto threshold = static_cast<std::uint32_t>(std::lround(options.dropout * 65536.0F));
  const std::int64_t features = input.x.cols();
  const bool sparse = input.x.is_sparse;
  Composition model(fp64_sums, options.aggregate_storage == RowStorage::bf16);
  ValueId x = model.add_input(features);
  ValueId aggregated = model.add_input(features);
  const auto drop = [&](ValueId& v, std::uint64_t key) {
    v = model.add<DropFeatures>("input", 0, v, DropoutMask{threshold, key});
  };
  if (threshold > 0 && reads_features(options, features, sparse)) drop(x, kFeatureMask);
  if (threshold > 0 && options.precompute) drop(aggregated, kAggregatedMask);

  for (int l = 0; l < options.layers; ++l) {
    const std::string name = "layers." + std::to_string(l);
    const bool last = l == options.layers - 1;
    Convolve::Options c;
    c.x = x;
    const std::int64_t in = model.value(x).cols;
    c.out = last ? classes : options.hidden;
    c.self_weight = options.kind == ModelKind::sage;
    c.bias = last;
    if (l == 0 && options.precompute) {
      c.aggregated = aggregated;
    } else {
      c.transform_first = options.transform_first && (c.out < in || (l == 0 && sparse));
    }
    const ValueId y = model.add<Convolve>(name, l, c);
    if (last) {
      model.set_logits(y);
      if (l > 0) model.set_embeddings(x);
      break;
    }
    const bool residual = options.residual && in == c.out && !(l == 0 && sparse);
    x = model.add<Activation>(
        name, l,
        Activation::Options{y,
                            residual ? x : kNoValue,
                            options.norm == NormLayer::layer,
                            {threshold, site_key(l + 1, Direction::forward)}});
  }
  return model;
}

}  // namespace heliograph
