#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/data_options.hpp"
#include "cli/progress.hpp"
#include "cli/text.hpp"
#include "heliograph/error.hpp"
#include "heliograph/generate.hpp"

namespace heliograph::cli {
namespace {

struct GenerateRequest {
  DataOptions messages;
  GenerateOptions graph;
  std::string preset;
  double scale = 1.0;
  std::string out;
  bool overwrite = false;
};

using Field = OptionField<GenerateRequest>;

const EnumNames<GraphModel>& graph_model_names() {
  static const EnumNames<GraphModel> names{{"block", GraphModel::block},
                                           {"rmat", GraphModel::rmat}};
  return names;
}

#define HELIOGRAPH_MEMBER(path) \
  [](auto& request) -> auto& { return request.path; }

void add_shape(std::vector<Field>& fields) {
  fields.push_back(make_optional_text<GenerateRequest>(
      "preset", "Shape", "reddit|products|yelp|amazon",
      "Nodes, edges, features and classes of a published graph; other flags change them.",
      HELIOGRAPH_MEMBER(preset)));
  fields.push_back(make_field<GenerateRequest>("scale", "Shape", "X",
                                               "With --preset: factor of nodes and edges.",
                                               HELIOGRAPH_MEMBER(scale)));
  fields.push_back(
      make_choice<GenerateRequest>("model", "Shape", "Degree-corrected block model, or R-MAT.",
                                   graph_model_names(), HELIOGRAPH_MEMBER(graph.model)));
  fields.push_back(make_field<GenerateRequest>("nodes", "Shape", "N", "Number of nodes.",
                                               HELIOGRAPH_MEMBER(graph.nodes)));
  fields.push_back(make_field<GenerateRequest>(
      "edges", "Shape", "N", "Undirected edges to draw; duplicates are dropped afterwards.",
      HELIOGRAPH_MEMBER(graph.edges)));
  fields.push_back(make_field<GenerateRequest>("features", "Shape", "N", "Feature columns.",
                                               HELIOGRAPH_MEMBER(graph.feature_cols)));
  fields.push_back(make_field<GenerateRequest>("classes", "Shape", "N", "Number of classes.",
                                               HELIOGRAPH_MEMBER(graph.classes)));
  fields.push_back(make_field<GenerateRequest>("multilabel", "Shape", "",
                                               "Any number of classes a node instead of one.",
                                               HELIOGRAPH_MEMBER(graph.multilabel)));
  fields.push_back(make_field<GenerateRequest>("labels-per-node", "Shape", "X",
                                               "With --multilabel: mean number of labels.",
                                               HELIOGRAPH_MEMBER(graph.labels_per_node)));
}

void add_difficulty(std::vector<Field>& fields) {
  const std::string group = "Structure and difficulty";
  fields.push_back(make_field<GenerateRequest>("homophily", group, "P",
                                               "Share of edges drawn within a class, 0 to 1.",
                                               HELIOGRAPH_MEMBER(graph.homophily)));
  fields.push_back(make_field<GenerateRequest>(
      "feature-noise", group, "X", "Standard deviation of features around their class's mean.",
      HELIOGRAPH_MEMBER(graph.feature_noise)));
  fields.push_back(make_field<GenerateRequest>(
      "label-noise", group, "P", "Share of nodes that are given another node's labels, 0 to 1.",
      HELIOGRAPH_MEMBER(graph.label_noise)));
  fields.push_back(make_field<GenerateRequest>(
      "degree-exponent", group, "X", "Tail of the degree distribution; larger is more even.",
      HELIOGRAPH_MEMBER(graph.degree_exponent)));
  fields.push_back(make_field<GenerateRequest>("rmat-a", group, "P", "R-MAT: top-left quadrant.",
                                               HELIOGRAPH_MEMBER(graph.rmat_a)));
  fields.push_back(make_field<GenerateRequest>("rmat-b", group, "P", "R-MAT: top-right quadrant.",
                                               HELIOGRAPH_MEMBER(graph.rmat_b)));
  fields.push_back(make_field<GenerateRequest>("rmat-c", group, "P", "R-MAT: bottom-left quadrant.",
                                               HELIOGRAPH_MEMBER(graph.rmat_c)));
  fields.push_back(make_field<GenerateRequest>("train-share", group, "X",
                                               "Training nodes, per cent.",
                                               HELIOGRAPH_MEMBER(graph.train_share)));
  fields.push_back(make_field<GenerateRequest>(
      "validation-share", group, "X", "Validation nodes, per cent; the rest is for testing.",
      HELIOGRAPH_MEMBER(graph.validation_share)));
  fields.push_back(make_field<GenerateRequest>("seed", group, "N", "Seed of everything drawn.",
                                               HELIOGRAPH_MEMBER(graph.seed)));
}

std::vector<Field> generate_fields() {
  std::vector<Field> fields;
  add_shape(fields);
  add_difficulty(fields);
  fields.push_back(make_optional_text<GenerateRequest>(
      "out", "Results", "DIR", "The native graph directory to write. Required.",
      HELIOGRAPH_MEMBER(out)));
  fields.push_back(make_field<GenerateRequest>(
      "overwrite", "Results", "", "Replace --out if it exists.", HELIOGRAPH_MEMBER(overwrite)));
  for (const auto& field : message_fields()) {
    fields.push_back(lift_field<GenerateRequest>(field, HELIOGRAPH_MEMBER(messages)));
  }
  return fields;
}

#undef HELIOGRAPH_MEMBER

class GenerateCommand : public Command {
 public:
  std::string name() const override { return "generate"; }
  std::string description() const override {
    return "Make a random graph with features and labels, of any size.";
  }
  std::string usage() const override { return " --out DIR [options]"; }
  std::string footer() const override {
    return "Examples:\n"
           "  heliograph generate --preset reddit --scale 0.1 --out graphs/small-reddit\n"
           "  heliograph generate --nodes 100000 --edges 1000000 --homophily 0.8 --out graphs/mine";
  }

  void declare(CLI::App& app) override {
    arguments_.declare(app, generate_fields(), GenerateRequest{});
  }

  int run(const std::vector<std::string>&) override {
    GenerateRequest request;
    arguments_.apply(request);
    if (!request.preset.empty()) {
      // The preset comes first, whatever the order of the flags: they change it.
      request.graph = generate_preset(request.preset, request.scale);
      arguments_.apply(request);
    } else if (request.scale != 1.0) {
      throw Error(ErrorCode::usage, "--scale needs --preset");
    }
    require_text(request.out, "out", "the directory to write");
    Progress progress(0, request.messages.quiet, request.messages.log_level);
    progress.phase("generating " + request.out);
    generate_to(request.graph, request.out, request.overwrite,
                [&](LogLevel level, std::string_view text) { progress.log(level, text); });
    progress.finish();
    if (request.messages.quiet) return 0;
    const std::string text =
        two_columns({{"nodes", with_commas(request.graph.nodes)},
                     {"edges drawn", with_commas(request.graph.edges)},
                     {"features", with_commas(request.graph.feature_cols)},
                     {"classes", fmt::format("{}{}", request.graph.classes,
                                             request.graph.multilabel ? " (multi-label)" : "")},
                     {"written to", request.out}});
    std::fwrite(text.data(), 1, text.size(), stdout);
    return 0;
  }

 private:
  Arguments<GenerateRequest> arguments_;
};

}  // namespace

std::unique_ptr<Command> make_generate_command() { return std::make_unique<GenerateCommand>(); }

}  // namespace heliograph::cli
