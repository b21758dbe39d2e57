#include "train/options/model_fields.hpp"

#include <string>

#include "train/options/values.hpp"

namespace heliograph {

void add_model_fields(FieldTable<TrainOptions>& fields) {
  fields.group("Model");
  fields.add(
      "model",
      "Model to train (docs/models.md): a graph convolutional network (gcn), GraphSAGE that "
      "averages the neighbours (sage), a graph isomorphism network (gin), an MLP whose logits "
      "are propagated (appnp) or propagated and gated (dagnn), a GCN whose layers' outputs are "
      "joined (jknet), a GCN that returns to its first layer (gcnii), or a graph attention "
      "network (gat), also one with a weight of its own for a node's own row (gat-sep) or with "
      "dynamic scores (gatv2).",
      HELIOGRAPH_MEMBER(model.kind));
  fields.add("layers", "N",
             "Number of layers that sum over neighbours; with appnp and dagnn, of the MLP.",
             HELIOGRAPH_MEMBER(model.layers));
  fields.add("hidden", "N", "Columns of each hidden layer's output.",
             HELIOGRAPH_MEMBER(model.hidden));
  fields.add("dropout", "P",
             "Probability that training sets a value of a layer's input to 0; at least 0, below 1.",
             HELIOGRAPH_MEMBER(model.dropout));
  fields.add("input-dropout", "P", "The same for the features. By default it is --dropout.",
             HELIOGRAPH_MEMBER(model.input_dropout));
  fields.add(
      "norm",
      "Normalisation after each hidden layer: LayerNorm (layer), BatchNorm over the nodes of "
      "all ranks (batch), or none. auto is none for appnp, dagnn and gcnii, otherwise layer.",
      HELIOGRAPH_MEMBER(model.norm));
  fields.add("activation", "Activation function of hidden layers.",
             HELIOGRAPH_MEMBER(model.activation));
  auto& residual = fields.add(
      "residual",
      "Add each layer's input to its output: as it is, if both have as many columns (identity, the "
      "meaning of --residual alone), or times a learned weight, before the normalisation (linear).",
      HELIOGRAPH_MEMBER(model.residual));
  residual.bare = choice_name(Residual::identity);
  residual.set = [](TrainOptions& options, const std::string& text) {
    // Config files may also hold true or false.
    options.model.residual = text == "true"    ? Residual::identity
                             : text == "false" ? Residual::none
                                               : parse_choice<Residual>("residual", text);
  };
  fields.add("pre-norm",
             "Normalise each layer's input instead of its output; needs --residual, --input-linear "
             "and --output-linear.",
             HELIOGRAPH_MEMBER(model.pre_norm));
  fields.add("input-linear", "Begin with a linear map to --hidden columns and an activation.",
             HELIOGRAPH_MEMBER(model.input_linear));
  fields.add("output-linear",
             "End with a linear map to the classes; every layer is then a hidden layer.",
             HELIOGRAPH_MEMBER(model.output_linear));
  fields.add(
      "feed-forward", "N",
      "Make each layer a block of two products with GELU between them, N times --hidden wide "
      "inside; 0 for none.",
      HELIOGRAPH_MEMBER(model.feed_forward));
  fields.add(
      "jk",
      "End with a linear map of all layers' outputs: side by side (concat), or their maximum "
      "or sum element by element. For jknet, none means concat.",
      HELIOGRAPH_MEMBER(model.jk));
  fields.add("hops", "N", "With appnp and dagnn: propagations after the MLP.",
             HELIOGRAPH_MEMBER(model.hops));
  fields.add("teleport", "X",
             "With appnp: share of the MLP's output that every propagation returns to.",
             HELIOGRAPH_MEMBER(model.teleport));
  fields.add(
      "eps-learned",
      "With gin: learn the weight of a node's own row, which begins as 1 and otherwise stays "
      "1.",
      HELIOGRAPH_MEMBER(model.eps_learned));
  fields.add("theta", "X",
             "With gcnii: layer l multiplies a share ln(X / l + 1) of its rows by its weight.",
             HELIOGRAPH_MEMBER(model.theta));
  fields.add("alpha", "X", "With gcnii: share of the first hidden layer in every layer.",
             HELIOGRAPH_MEMBER(model.alpha));
  fields.add("heads", "N",
             "With gat, gat-sep and gatv2: attention heads of each layer, which divide --hidden.",
             HELIOGRAPH_MEMBER(model.heads));
  fields.add("output-heads", "N",
             "With gat and gatv2: heads whose mean is the logits; 0 for as many as --heads.",
             HELIOGRAPH_MEMBER(model.output_heads));
  fields.add("concat-heads",
             "With gat, gat-sep and gatv2: average the heads of hidden layers, each of --hidden "
             "columns. By default they are side by side and have --hidden columns together.",
             HELIOGRAPH_MEMBER(model.concat_heads));
  fields.add("attention-dropout", "P",
             "With gat, gat-sep and gatv2: probability that training drops a weight of attention.",
             HELIOGRAPH_MEMBER(model.attention_dropout));
  fields.add("negative-slope", "X",
             "With gat, gat-sep and gatv2: slope of LeakyReLU below 0, in the scores of attention.",
             HELIOGRAPH_MEMBER(model.negative_slope));
  // --help shows a switch that is on by default as --no-NAME.
  fields.add(
      "precompute",
      "Aggregate the input features in every epoch, after dropout. By default they are "
      "aggregated once, before the first epoch, and dropout follows. With gat, gat-sep and gatv2: "
      "exchange rows of the first layer in every epoch. By default, but not with "
      "--reproducible, each rank fetches its halo's features once, and the first layer exchanges "
      "nothing.",
      HELIOGRAPH_MEMBER(model.precompute));
  fields.add("transform-first",
             "Always aggregate before the product with the weights. By default the product comes "
             "first in layers whose output has fewer columns than their input.",
             HELIOGRAPH_MEMBER(model.transform_first));
  fields.add(
      "aggregate-storage",
      "Number format of the rows that training sums over a rank's own nodes. bf16 halves the "
      "bytes that are read, which helps on graphs with many edges per node that do not fit "
      "into the caches. Sums and evaluation stay fp32; rows from other ranks have --bits.",
      HELIOGRAPH_MEMBER(model.aggregate_storage));
}

}  // namespace heliograph
