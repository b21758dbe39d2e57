#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <limits>
#include <optional>

#include "cli/command.hpp"
#include "cli/data_options.hpp"
#include "cli/progress.hpp"
#include "cli/text.hpp"
#include "heliograph/error.hpp"
#include "heliograph/generate.hpp"
#include "train/options/values.hpp"
#include "train/process_memory.hpp"

namespace heliograph::cli {
namespace {

struct GenerateRequest {
  DataOptions messages;
  GenerateOptions graph;
  std::optional<std::int64_t> edges;
  std::string preset;
  double scale = 1.0;
  std::string out;
  bool overwrite = false;
};

constexpr double kGib = 1 << 30;

using GenerateFields = FieldTable<GenerateRequest>;

void add_shape(GenerateFields& fields) {
  fields.group("Shape");
  fields.add("preset", "reddit|products|yelp|amazon",
             "Start from nodes, edges, features and classes of a published graph. Other flags "
             "override them.",
             HELIOGRAPH_MEMBER(preset));
  fields.add("scale", "X", "With --preset: factor for the numbers of nodes and edges.",
             HELIOGRAPH_MEMBER(scale));
  fields.add("model",
             "How edges are drawn: by a degree-corrected block model (block) or R-MAT (rmat).",
             HELIOGRAPH_MEMBER(graph.model));
  fields.add("nodes", "N", "Number of nodes.", HELIOGRAPH_MEMBER(graph.nodes));
  fields.add("edges", "N",
             "About how many undirected edges the graph gets; fewer if the model has too few pairs "
             "of nodes to draw. By default those of --preset, or ten a node and at most an eighth "
             "of all pairs.",
             HELIOGRAPH_MEMBER(edges));
  fields.add("features", "N", "Feature columns.", HELIOGRAPH_MEMBER(graph.feature_cols));
  fields.add("classes", "N", "Number of classes.", HELIOGRAPH_MEMBER(graph.classes));
  fields.add("multilabel", "Give each node any number of classes instead of one.",
             HELIOGRAPH_MEMBER(graph.multilabel));
  fields.add("labels-per-node", "X", "With --multilabel: mean number of labels per node.",
             HELIOGRAPH_MEMBER(graph.labels_per_node));
}

void add_difficulty(GenerateFields& fields) {
  fields.group("Structure and difficulty");
  fields.add(
      "homophily", "P",
      "Share of edges drawn within a class, 0 to 1. Duplicates, of which most are within a class, "
      "are drawn again, so dense graphs end up below it: --preset reddit --scale 0.1 asks for 0.75 "
      "and, before label noise, has 0.57.",
      HELIOGRAPH_MEMBER(graph.homophily));
  fields.add("feature-noise", "X", "Standard deviation of features around the mean of their class.",
             HELIOGRAPH_MEMBER(graph.feature_noise));
  fields.add("label-noise", "P", "Share of nodes that get the labels of another node, 0 to 1.",
             HELIOGRAPH_MEMBER(graph.label_noise));
  fields.add("degree-exponent", "X",
             "Exponent of the power law of degrees. A larger one gives more even degrees.",
             HELIOGRAPH_MEMBER(graph.degree_exponent));
  fields.add("rmat-a", "P", "With --model rmat: probability of the top-left quadrant.",
             HELIOGRAPH_MEMBER(graph.rmat_a));
  fields.add("rmat-b", "P", "With --model rmat: probability of the top-right quadrant.",
             HELIOGRAPH_MEMBER(graph.rmat_b));
  fields.add("rmat-c", "P", "With --model rmat: probability of the bottom-left quadrant.",
             HELIOGRAPH_MEMBER(graph.rmat_c));
  fields.add("train-share", "X", "Share of training nodes, per cent.",
             HELIOGRAPH_MEMBER(graph.train_share));
  fields.add("validation-share", "X",
             "Share of validation nodes, per cent. The other nodes are test nodes.",
             HELIOGRAPH_MEMBER(graph.validation_share));
  fields.add("seed", "N", "Random seed of the whole data set.", HELIOGRAPH_MEMBER(graph.seed));
}

std::vector<OptionField<GenerateRequest>> generate_fields() {
  GenerateFields fields;
  add_shape(fields);
  add_difficulty(fields);
  fields.group("Results");
  fields.add("out", "DIR", "The native graph directory to write. Required.",
             HELIOGRAPH_MEMBER(out));
  fields.add("overwrite", "Replace --out if it exists.", HELIOGRAPH_MEMBER(overwrite));
  fields.add_part(message_fields(), HELIOGRAPH_MEMBER(messages));
  return fields.take();
}

int run_generate(const Arguments<GenerateRequest>& arguments) {
  GenerateRequest request;
  arguments.apply(request);
  if (!request.preset.empty()) {
    // Flags override the preset, whatever their order.
    request.graph = generate_preset(request.preset, request.scale);
    arguments.apply(request);
  }
  GenerateOptions& graph = request.graph;
  if (request.edges) {
    graph.edges = *request.edges;
  } else if (request.preset.empty()) {
    const std::int64_t nodes =
        std::clamp<std::int64_t>(graph.nodes, 0, std::numeric_limits<std::int32_t>::max());
    graph.edges = std::min(10 * nodes, nodes * (nodes - 1) / 16);
  }
  const auto require = [&](bool holds, std::initializer_list<const char*> names, const char* need) {
    for (const char* name : names) {
      if (holds || !arguments.given(name)) continue;
      throw Error(ErrorCode::usage, fmt::format("--{} needs {}", name, need));
    }
  };
  require(!request.preset.empty(), {"scale"}, "--preset");
  require(graph.multilabel, {"labels-per-node"}, "--multilabel");
  require(graph.model == GraphModel::rmat, {"rmat-a", "rmat-b", "rmat-c"}, "--model rmat");
  require(graph.model == GraphModel::block, {"homophily", "degree-exponent"}, "--model block");
  require_text(request.out, "out", "the directory to write");
  Progress progress(0, request.messages.quiet, request.messages.log_level);
  progress.phase("generating " + request.out);
  const std::int64_t needed = generation_bytes(graph);
  if (const auto available = available_memory_bytes(); available && needed > *available) {
    throw Error(
        ErrorCode::resource,
        fmt::format("{} nodes and {} edges need about {:.1f} GiB of memory and there are "
                    "{:.1f} GiB available: lower --nodes, --edges or --scale",
                    with_commas(graph.nodes), with_commas(graph.edges),
                    static_cast<double>(needed) / kGib, static_cast<double>(*available) / kGib));
  }
  const GeneratedCounts counts =
      generate_to(graph, request.out, request.overwrite, progress.callback());
  progress.finish();
  if (request.messages.quiet) return 0;
  const std::string text = two_columns(
      {{"nodes", with_commas(request.graph.nodes)},
       {"edges", with_commas(counts.edges)},
       {"features", with_commas(request.graph.feature_cols)},
       {"classes", fmt::format("{}{}", request.graph.classes,
                               request.graph.multilabel ? " (multi-label)" : "")},
       {"split", fmt::format("{} nodes to train on, {} to validate, {} to test",
                             with_commas(counts.training_nodes),
                             with_commas(counts.validation_nodes), with_commas(counts.test_nodes))},
       {"written to", request.out}});
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace

Command generate_command() {
  return with_fields<GenerateRequest>(
      {"generate", "Make a random graph with features and labels, of any size.",
       " --out DIR [options]",
       "Examples:\n"
       "  heliograph generate --preset reddit --scale 0.1 --out graphs/small-reddit\n"
       "  heliograph generate --nodes 100000 --edges 1000000 --homophily 0.8 --out graphs/blocks"},
      generate_fields(), run_generate);
}

}  // namespace heliograph::cli
