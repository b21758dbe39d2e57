#include "layers/compose.hpp"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "layers/activation.hpp"
#include "layers/attend.hpp"
#include "layers/attend_dynamic.hpp"
#include "layers/convolve.hpp"
#include "layers/drop.hpp"
#include "layers/gate.hpp"
#include "layers/join.hpp"
#include "layers/linear.hpp"
#include "layers/propagate.hpp"

namespace heliograph {

namespace {

/// Noise keys of the dropout masks of the model's two inputs, which no other mask has.
constexpr std::uint64_t kFeatureMask = site_key(0, Direction::forward);
constexpr std::uint64_t kAggregatedMask = site_key(0, Direction::backward);

std::uint32_t threshold_of(float probability) {
  return static_cast<std::uint32_t>(std::lround(probability * 65536.0F));
}

int hidden_layers(const ModelOptions& options) {
  return options.layers - (maps_output(options) ? 0 : 1);
}

/// Whether hidden layer l adds its input to its output with Residual::identity.
bool adds_input(const ModelOptions& options, int l, std::int64_t features, bool sparse_features) {
  const bool reads_hidden = l > 0 || options.input_linear || options.kind == ModelKind::gcnii;
  return options.residual == Residual::identity && l < hidden_layers(options) &&
         (reads_hidden || (features == options.hidden && !sparse_features));
}

/// Adds the steps of one model.
class Composer {
 public:
  Composer(const ModelOptions& options, const ModelInput& input, std::int64_t classes,
           Composition& model)
      : options_(options),
        model_(model),
        classes_(classes),
        sparse_(input.x.is_sparse),
        threshold_(threshold_of(options.dropout)),
        norm_(norm_of(options)),
        join_(joined_by(options)) {
    const std::int64_t features = input.x.cols();
    x_ = model_.add_input(features);
    gathered_ = model_.add_input(features);
    const std::uint32_t threshold = threshold_of(options.input_dropout.value_or(options.dropout));
    if (threshold == 0) return;
    const auto drop = [&](ValueId& v, std::uint64_t key) {
      v = model_.add<Drop>("input", 0, v, DropoutMask{threshold, key});
    };
    if (reads_features(options, features, sparse_)) drop(x_, kFeatureMask);
    if (precomputes(options)) drop(gathered_, kAggregatedMask);
    if (fetches_features(options)) drop(gathered_, kFeatureMask);
  }

  void compose() {
    if (options_.input_linear) {
      const ValueId y = linear("input_linear", 0, {{x_, "weight"}}, options_.hidden, false);
      x_ = activate("input_linear", 0, {.y = y, .norm = NormLayer::none}, another_mask());
    }
    if (options_.kind == ModelKind::gcnii) {
      add_gcnii_layers();
    } else {
      for (int l = 0; l < options_.layers; ++l) add_layer(l);
    }
    if (maps_output(options_)) add_output();
    if (options_.kind == ModelKind::appnp || options_.kind == ModelKind::dagnn) add_hops();
    model_.set_logits(x_);
  }

 private:
  /// The mask of the output of a layer.
  DropoutMask mask(int layer) const {
    return {threshold_, site_key(layer + 1, Direction::forward)};
  }
  /// A mask unlike those of inputs and of layers' outputs.
  DropoutMask another_mask() { return {threshold_, kFeatureMask + (++other_masks_ << 16)}; }
  ValueId linear(std::string name, int layer, std::vector<Linear::Term> terms, std::int64_t out,
                 bool bias) {
    return model_.add<Linear>(std::move(name), layer, Linear::Options{std::move(terms), out, bias});
  }
  /// An activation step with the options' function, whose output is dropped.
  ValueId activate(std::string name, int layer, Activation::Options o, DropoutMask mask) {
    o.function = options_.activation;
    o.dropout = mask;
    return model_.add<Activation>(std::move(name), layer, o);
  }

  /// The sums over neighbours of x times a weight, or just the product if layers are an MLP.
  ValueId convolve(const std::string& name, int layer, ValueId x, std::int64_t out, bool bias) {
    const bool self = options_.kind == ModelKind::sage || options_.residual == Residual::linear;
    if (!convolves(options_)) return linear(name, layer, {{x, "weight"}}, out, bias);
    if (attends(options_)) return attend(name, layer, x, out, bias);
    if (layer == 0 && precomputes(options_)) {
      std::vector<Linear::Term> terms{{gathered_, self ? "neighbour_weight" : "weight"}};
      if (self) terms.push_back({x, "self_weight"});
      return linear(name, layer, std::move(terms), out, bias);
    }
    Convolve::Options c;
    c.x = x;
    c.out = out;
    c.self_weight = self;
    c.epsilon = options_.eps_learned;
    c.bias = bias;
    const bool sparse = sparse_ && layer == 0 && !options_.input_linear;
    c.transform_first = options_.transform_first && (out < model_.value(x).cols || sparse);
    return model_.add<Convolve>(name, layer, c);
  }

  /// Graph attention over x. With gat-sep, and where its output must be mapped to `out` columns,
  /// a linear map of it and of x follows.
  ValueId attend(const std::string& name, int layer, ValueId x, std::int64_t out, bool bias) {
    const bool logits = layer == hidden_layers(options_) && averages_logits(options_);
    const bool maps = options_.kind == ModelKind::gat_sep || options_.feed_forward > 0;
    const std::int64_t width = maps ? options_.hidden : out;
    AttentionStep::Options a;
    a.has_halo = layer == 0 && fetches_features(options_);
    a.x = a.has_halo ? gathered_ : x;
    a.heads = logits ? output_heads_of(options_) : options_.heads;
    a.average = a.heads > 1 && (logits || !options_.concat_heads);
    a.bias = bias && !maps && options_.residual != Residual::linear;
    a.slope = options_.negative_slope;
    a.dropout = threshold_of(options_.attention_dropout);
    a.cols = a.average ? width * a.heads : width;
    const std::string step = name + ".attention";
    const ValueId y = options_.kind == ModelKind::gatv2 ? model_.add<AttendDynamic>(step, layer, a)
                                                        : model_.add<Attend>(step, layer, a);
    std::vector<Linear::Term> terms;
    if (options_.kind == ModelKind::gat_sep || options_.residual == Residual::linear) {
      terms.push_back({x, "self_weight"});
    }
    if (maps) {
      terms.push_back({y, "neighbour_weight"});
      return linear(name, layer, std::move(terms), out, bias);
    }
    if (terms.empty()) return y;
    const ValueId self = linear(name, layer, std::move(terms), out, bias);
    return model_.add<Join>(name + ".sum", layer, std::vector<ValueId>{y, self},
                            JumpingKnowledge::sum);
  }

  void add_layer(int l) {
    const std::string name = "layers." + std::to_string(l);
    const bool last = l == hidden_layers(options_);
    const std::int64_t out = last ? classes_ : options_.hidden;
    const bool wide = options_.feed_forward > 0;
    const bool block = wide || options_.kind == ModelKind::gin;
    const ValueId in = x_;
    ValueId u = in;
    if (options_.pre_norm) {
      Activation::Options norm{.y = in, .norm = norm_, .bias = false, .other_readers = true};
      norm.function = wide ? ActivationFunction::none : options_.activation;
      norm.dropout = mask(l);
      u = model_.add<Activation>(name + ".pre_norm", l, norm);
    }
    ValueId y;
    if (block) {
      const std::int64_t inner =
          wide ? std::int64_t{options_.feed_forward} * options_.hidden : options_.hidden;
      y = convolve(name, l, u, inner, false);
      Activation::Options act{.y = y, .norm = wide ? NormLayer::none : norm_};
      act.function = wide ? ActivationFunction::gelu : options_.activation;
      act.dropout = another_mask();
      y = model_.add<Activation>(name + ".inner", l, act);
      y = linear(name + ".output", l, {{y, "weight"}}, out, last);
    } else {
      y = convolve(name, l, u, out, last);
    }
    if (last) {
      if (l > 0 || options_.input_linear) model_.set_embeddings(in);
      x_ = y;
      return;
    }
    const bool adds = adds_input(options_, l, model_.value(in).cols, sparse_);
    if (options_.pre_norm) {
      x_ = model_.add<Activation>(name, l,
                                  Activation::Options{.y = y,
                                                      .residual = in,
                                                      .norm = NormLayer::none,
                                                      .function = ActivationFunction::none});
    } else {
      x_ = activate(name, l, {.y = y, .residual = adds ? in : kNoValue, .norm = norm_}, mask(l));
    }
    if (join_ != JumpingKnowledge::none) outputs_.push_back(x_);
  }

  /// The final linear map, of the last layer's output or of all layers' outputs.
  void add_output() {
    const int layer = options_.layers;
    if (join_ != JumpingKnowledge::none) x_ = model_.add<Join>("join", layer, outputs_, join_);
    if (options_.pre_norm) {
      Activation::Options norm{.y = x_, .norm = norm_, .bias = false};
      norm.function = ActivationFunction::none;
      norm.dropout = another_mask();
      x_ = model_.add<Activation>("output_norm", layer, norm);
    }
    model_.set_embeddings(x_);
    x_ = linear("output_linear", layer, {{x_, "weight"}}, classes_, true);
  }

  /// Propagates the MLP's logits: personalised PageRank, or gates over all numbers of hops.
  void add_hops() {
    const bool gated = options_.kind == ModelKind::dagnn;
    const ValueId root = x_;
    std::vector<ValueId> parts{root};
    for (int k = 0; k < options_.hops; ++k) {
      Propagate::Options p;
      p.x = x_;
      if (!gated) {
        p.root = root;
        p.share = 1 - options_.teleport;
      }
      x_ = model_.add<Propagate>("hops." + std::to_string(k), options_.layers + k, p);
      parts.push_back(x_);
    }
    if (gated) x_ = model_.add<Gate>("gate", options_.layers + options_.hops, parts);
  }

  /// GCNII (Chen et al., 2020, equation 5): every layer starts from a share of the first one.
  void add_gcnii_layers() {
    const ValueId y = linear("input_linear", 0, {{x_, "weight"}}, options_.hidden, false);
    const ValueId root = activate("input_linear", 0, {.y = y, .norm = NormLayer::none}, {});
    x_ = threshold_ == 0 ? root : model_.add<Drop>("input_linear.drop", 0, root, another_mask());
    for (int l = 0; l < options_.layers; ++l) {
      const std::string name = "layers." + std::to_string(l);
      const ValueId in = x_;
      x_ = model_.add<Propagate>(
          name, l, Propagate::Options{.x = in, .root = root, .share = 1 - options_.alpha});
      Linear::Options product{{{x_, "weight"}}, options_.hidden, false};
      product.share = std::log(options_.theta / static_cast<float>(l + 1) + 1.0F);
      x_ = model_.add<Linear>(name, l, product);
      const bool adds = adds_input(options_, l, model_.value(in).cols, sparse_);
      x_ = activate(name, l, {.y = x_, .residual = adds ? in : kNoValue, .norm = norm_}, mask(l));
    }
  }

  const ModelOptions& options_;
  Composition& model_;
  std::int64_t classes_;
  bool sparse_;
  std::uint32_t threshold_;
  NormLayer norm_;
  JumpingKnowledge join_;
  ValueId x_ = kNoValue, gathered_ = kNoValue;
  std::vector<ValueId> outputs_;  ///< Of the layers that are joined.
  std::uint64_t other_masks_ = 0;
};

}  // namespace

Propagation propagation_of(const ModelOptions& options) {
  switch (options.kind) {
    case ModelKind::sage:
      return {DegreeScale::inverse, DegreeScale::one, 0.0F};
    case ModelKind::gin:
      return {DegreeScale::one, DegreeScale::one, 1.0F};
    case ModelKind::gcn:
    case ModelKind::jknet:
    case ModelKind::appnp:
    case ModelKind::dagnn:
    case ModelKind::gcnii:
      return {DegreeScale::inverse_root, DegreeScale::inverse_root, 1.0F};
    case ModelKind::gat:
    case ModelKind::gat_sep:
    case ModelKind::gatv2:
      return {.sums = false};
  }
  return {};
}

bool attends(const ModelOptions& options) {
  return options.kind == ModelKind::gat || options.kind == ModelKind::gat_sep ||
         options.kind == ModelKind::gatv2;
}

Bits fewest_bits(const ModelOptions& options) {
  return options.kind == ModelKind::gatv2 ? Bits::eight : Bits::one;
}

bool averages_logits(const ModelOptions& options) {
  return attends(options) && options.kind != ModelKind::gat_sep && options.feed_forward == 0 &&
         !maps_output(options);
}

bool precomputes(const ModelOptions& options) {
  return options.precompute && convolves(options) && !attends(options) && !options.input_linear &&
         !options.eps_learned;
}

bool fetches_features(const ModelOptions& options) {
  return options.precompute && attends(options) && !options.input_linear && !options.pre_norm;
}

bool exchanges_features(const ModelOptions& options) {
  return convolves(options) && !attends(options) && !options.input_linear && !precomputes(options);
}

bool exchanges_rows(const ModelOptions& options) {
  return options.layers > 1 || !(precomputes(options) || fetches_features(options));
}

bool reads_features(const ModelOptions& options, std::int64_t features, bool sparse_features) {
  return options.kind == ModelKind::sage || options.kind == ModelKind::gat_sep ||
         options.residual == Residual::linear ||
         !(precomputes(options) || fetches_features(options)) ||
         adds_input(options, 0, features, sparse_features);
}

bool convolves(const ModelOptions& options) {
  return options.kind != ModelKind::appnp && options.kind != ModelKind::dagnn &&
         options.kind != ModelKind::gcnii;
}

bool maps_output(const ModelOptions& options) {
  return options.output_linear || options.kind == ModelKind::gcnii ||
         joined_by(options) != JumpingKnowledge::none;
}

JumpingKnowledge joined_by(const ModelOptions& options) {
  const bool by_default = options.kind == ModelKind::jknet && options.jk == JumpingKnowledge::none;
  return by_default ? JumpingKnowledge::concat : options.jk;
}

NormLayer norm_of(const ModelOptions& options) {
  if (options.norm != NormLayer::automatic) return options.norm;
  // With LayerNorm, the gates of dagnn can close for good in the first epochs.
  return convolves(options) ? NormLayer::layer : NormLayer::none;
}

int output_heads_of(const ModelOptions& options) {
  return options.output_heads > 0 ? options.output_heads : options.heads;
}

bool adds_residuals(const ModelOptions& options, std::int64_t features, bool sparse_features) {
  // A layer adds its input if the one before it does.
  const int last = hidden_layers(options) - 1;
  return last >= 0 && adds_input(options, last, features, sparse_features);
}

Composition compose(const ModelOptions& options, const ModelInput& input, std::int64_t classes,
                    bool fp64_sums, bool partial_sums) {
  Composition model(fp64_sums, options.aggregate_storage == RowStorage::bf16, partial_sums);
  Composer(options, input, classes, model).compose();
  return model;
}

}  // namespace heliograph
