#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/nearest_name.hpp"
#include "core/plural.hpp"
#include "core/throw_error.hpp"
#include "heliograph/generate.hpp"

namespace heliograph {
namespace {

/// The shape of a published data set. Nodes, undirected edges, columns, classes and shares are as
/// published; homophily and noise are our choice.
struct Preset {
  const char* name;
  std::int64_t nodes;
  std::int64_t edges;
  std::int64_t feature_cols;
  std::int32_t classes;
  bool multilabel;
  double homophily, feature_noise, label_noise;
  double train_share, validation_share;
};

// Published counts of Reddit, Yelp and AmazonProducts are twice these: they count both directions.
constexpr std::array<Preset, 4> kPresets{{
    {"reddit", 232'965, 57'307'946, 602, 41, false, 0.75, 3, 0.03, 66, 10},
    {"products", 2'449'029, 61'859'140, 100, 47, false, 0.8, 2, 0.1, 8, 2},
    {"yelp", 716'847, 6'977'409, 300, 100, true, 0.8, 0.4, 0.1, 75, 10},
    {"amazon", 1'569'960, 132'169'734, 200, 107, true, 0.6, 2, 0.1, 85, 5},
}};

}  // namespace

GenerateOptions generate_preset(const std::string& name, double scale) {
  const auto found = std::find_if(kPresets.begin(), kPresets.end(),
                                  [&](const Preset& preset) { return name == preset.name; });
  if (found == kPresets.end()) {
    std::vector<std::string> names;
    for (const Preset& preset : kPresets) names.emplace_back(preset.name);
    const std::string near = nearest_name(name, names);
    if (near.empty()) {
      throw_error(ErrorCode::usage, "unknown preset '{}': there are {}", name,
                  listed(names, "and"));
    }
    throw_error(ErrorCode::usage, "unknown preset '{}': did you mean '{}'?", name, near);
  }
  if (!(scale > 0) || !std::isfinite(scale)) {
    throw_error(ErrorCode::usage, "--scale {:f} is not above 0", scale);
  }
  const double nodes = std::max(16.0, std::round(scale * static_cast<double>(found->nodes)));
  if (nodes > std::numeric_limits<NodeId>::max()) {
    throw_error(ErrorCode::resource,
                "--scale {:f} asks for {:f} nodes, more than 32-bit node numbers can name", scale,
                nodes);
  }
  GenerateOptions options;
  options.name = name;
  options.nodes = static_cast<std::int64_t>(nodes);
  // A small graph cannot have the large one's degrees: it has at most an eighth of all pairs.
  const std::int64_t pairs = options.nodes * (options.nodes - 1) / 2;
  options.edges =
      std::min(pairs / 8,
               static_cast<std::int64_t>(std::llround(scale * static_cast<double>(found->edges))));
  options.feature_cols = found->feature_cols;
  options.classes = found->classes;
  options.multilabel = found->multilabel;
  options.homophily = found->homophily;
  options.feature_noise = found->feature_noise;
  options.label_noise = found->label_noise;
  options.train_share = found->train_share;
  options.validation_share = found->validation_share;
  return options;
}

}  // namespace heliograph
