#include "heliograph/generate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/thread.hpp"
#include "core/thread_pool.hpp"
#include "core/throw_error.hpp"
#include "graph/draws.hpp"
#include "graph/generate/edges.hpp"
#include "graph/generate/labels.hpp"
#include "graph/io/native_writer.hpp"
#include "graph/rows.hpp"
#include "graph/validate.hpp"

namespace heliograph {
namespace {

/// The number of nodes in a set with this share.
std::int64_t share_of(const GenerateOptions& options, double per_cent) {
  return static_cast<std::int64_t>(
      std::llround(per_cent / 100 * static_cast<double>(options.nodes)));
}

void check_generate_options(const GenerateOptions& o) {
  const auto between = [](double x, double low, double high) { return x >= low && x <= high; };
  const auto require = []<class... Args>(bool holds, fmt::format_string<const Args&...> sentence,
                                         const Args&... args) {
    if (!holds) throw_error(ErrorCode::usage, sentence, args...);
  };
  require(o.nodes >= 1, "--nodes {}: at least 1 is needed", o.nodes);
  if (o.nodes > std::numeric_limits<NodeId>::max()) {
    throw_error(ErrorCode::resource, "--nodes {} is more than 32-bit node numbers can name",
                o.nodes);
  }
  const std::int64_t pairs = o.nodes * (o.nodes - 1) / 2;
  require(o.edges >= 0 && o.edges <= pairs,
          "--edges {} is not between 0 and the {} pairs of {} nodes", o.edges, pairs, o.nodes);
  require(o.feature_cols >= 1, "--features {} is below 1", o.feature_cols);
  require(o.classes >= 2, "--classes {} is below 2", o.classes);
  require(o.classes <= kMaxClasses, "--classes {} is above the {} that a graph may have", o.classes,
          kMaxClasses);
  require(between(o.homophily, 0, 1), "--homophily {:f} is not between 0 and 1", o.homophily);
  // Draws stay below 12 standard deviations, so features are finite in fp32.
  require(between(o.feature_noise, 0, 1e36), "--feature-noise {:f} is not between 0 and 1e36",
          o.feature_noise);
  require(between(o.label_noise, 0, 1), "--label-noise {:f} is not between 0 and 1", o.label_noise);
  require(o.degree_exponent > 2 && std::isfinite(o.degree_exponent),
          "--degree-exponent {:f} is not above 2, so degrees would have no mean",
          o.degree_exponent);
  require(!o.multilabel || between(o.labels_per_node, 1, o.classes),
          "--labels-per-node {:f} is not between 1 and the {} classes", o.labels_per_node,
          o.classes);
  require(
      o.rmat_a >= 0 && o.rmat_b >= 0 && o.rmat_c >= 0 && o.rmat_a + o.rmat_b + o.rmat_c <= 1 + 1e-9,
      "--rmat-a, --rmat-b and --rmat-c must not be negative and must sum to at most 1");
  require(
      o.train_share >= 0 && o.validation_share >= 0 && o.train_share + o.validation_share <= 100,
      "--train-share {:f} and --validation-share {:f} must not be negative and must sum to at most "
      "100 per cent",
      o.train_share, o.validation_share);
  require(share_of(o, o.train_share) >= 1,
          "--train-share {:f} leaves none of the {} nodes for training", o.train_share, o.nodes);
}

ThreadPool make_pool() { return ThreadPool(usable_cores()); }

/// Gives each role its exact number of nodes, which the seed selects.
std::vector<Role> draw_roles(const GenerateOptions& options) {
  const std::uint64_t stream = generator_stream(options.seed, Drawn::role);
  std::vector<std::pair<std::uint64_t, NodeId>> order;
  order.reserve(at(options.nodes));
  for (NodeId v = 0; v < options.nodes; ++v) {
    order.emplace_back(row_key(stream, static_cast<std::uint64_t>(v)), v);
  }
  const std::int64_t train = share_of(options, options.train_share);
  const std::int64_t fitted = std::min(
      options.nodes, train + share_of(options, options.validation_share));  // both are rounded
  std::nth_element(order.begin(), order.begin() + train, order.end());
  std::nth_element(order.begin() + train, order.begin() + fitted, order.end());
  std::vector<Role> role(at(options.nodes), Role::test);
  for (std::int64_t i = 0; i < fitted; ++i) {
    role[at(order[at(i)].second)] = i < train ? Role::train : Role::validation;
  }
  return role;
}

/// The features of a node are the sum of its labels' means plus independent normal noise. Class
/// means are independent normal vectors of expected squared length 1, so the number of columns
/// hardly changes how hard the classes are to tell apart.
class FeatureRows {
 public:
  FeatureRows(const GenerateOptions& options, const LabelLists& labels)
      : labels_(labels),
        cols_(static_cast<std::size_t>(options.feature_cols)),
        noise_(options.feature_noise),
        stream_(generator_stream(options.seed, Drawn::feature)),
        means_(static_cast<std::size_t>(options.classes) * cols_) {
    const std::uint64_t stream = generator_stream(options.seed, Drawn::mean);
    const double deviation = 1.0 / std::sqrt(static_cast<double>(cols_));
    for (std::size_t i = 0; i < means_.size(); ++i) {
      means_[i] = deviation * Draws(stream, i).normals().first;
    }
  }

  /// Fills `row` with the features of node `v`, one value for each column.
  void fill(NodeId v, std::span<float> row) const {
    Draws draws(stream_, static_cast<std::uint64_t>(v));
    const auto own = labels_.of(v);
    const auto signal = [&](std::size_t j) {
      double sum = 0;
      for (const std::int32_t c : own) sum += means_[static_cast<std::size_t>(c) * cols_ + j];
      return sum;
    };
    for (std::size_t j = 0; j < cols_; j += 2) {
      const auto [even, odd] = draws.normals();
      row[j] = static_cast<float>(signal(j) + noise_ * even);
      if (j + 1 < cols_) row[j + 1] = static_cast<float>(signal(j + 1) + noise_ * odd);
    }
  }

 private:
  const LabelLists& labels_;
  std::size_t cols_;
  double noise_;
  std::uint64_t stream_;
  std::vector<double> means_;  ///< classes x cols.
};

/// Calls use(rows) for runs of consecutive feature rows that fit into a buffer, in node order. Rows
/// are filled in parallel.
template <class Use>
void for_feature_runs(const GenerateOptions& options, const LabelLists& labels, ThreadPool& pool,
                      Use&& use) {
  constexpr std::int64_t values_at_once = 1 << 22;
  const std::int64_t run = std::max<std::int64_t>(1, values_at_once / options.feature_cols);
  const std::size_t cols = at(options.feature_cols);
  const FeatureRows rows(options, labels);
  std::vector<float> buffer(at(std::min(run, options.nodes)) * cols);
  for (std::int64_t begin = 0; begin < options.nodes; begin += run) {
    const std::int64_t count = std::min(run, options.nodes - begin);
    const auto fill_some = [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t i = from; i < to; ++i) {
        rows.fill(static_cast<NodeId>(begin + i), std::span(buffer).subspan(at(i) * cols, cols));
      }
    };
    pool.for_ranges(count, 256, fill_some);
    use(std::span<const float>(buffer).first(at(count) * cols));
  }
}

std::vector<std::int32_t> stated_classes(const LabelLists& labels) {
  std::vector<std::int32_t> classes(at(labels.nodes()));
  for (NodeId v = 0; v < labels.nodes(); ++v) classes[at(v)] = labels.stated(v)[0];
  return classes;
}

/// Calls use(rows) for runs of consecutive indicator rows, in node order.
template <class Use>
void for_indicator_runs(const LabelLists& labels, std::int32_t classes, Use&& use) {
  constexpr std::int64_t run = 1 << 15;
  std::vector<std::uint8_t> buffer;
  for (std::int64_t begin = 0; begin < labels.nodes(); begin += run) {
    const std::int64_t count = std::min(run, labels.nodes() - begin);
    buffer.assign(at(count) * at(classes), 0);
    for (std::int64_t i = 0; i < count; ++i) {
      for (const std::int32_t c : labels.stated(static_cast<NodeId>(begin + i))) {
        buffer[at(i) * at(classes) + at(c)] = 1;
      }
    }
    use(std::span<const std::uint8_t>(buffer));
  }
}

/// The data set without its graph, arrays and splits.
Dataset empty_dataset(const GenerateOptions& options) {
  Dataset dataset;
  dataset.name = options.name;
  dataset.features.rows = options.nodes;
  dataset.features.cols = options.feature_cols;
  dataset.labels.task = options.multilabel ? Task::multilabel : Task::multiclass;
  dataset.labels.classes = options.classes;
  return dataset;
}

}  // namespace

Dataset generate_dataset(const GenerateOptions& options) {
  check_generate_options(options);
  ThreadPool pool = make_pool();
  const LabelLists labels(options);
  Dataset dataset = empty_dataset(options);
  dataset.graph = draw_graph(options, labels, pool);

  std::vector<float> dense;
  dense.reserve(at(options.nodes) * at(options.feature_cols));
  for_feature_runs(options, labels, pool, [&](std::span<const float> rows) {
    dense.insert(dense.end(), rows.begin(), rows.end());
  });
  dataset.features.dense = std::move(dense);

  if (options.multilabel) {
    std::vector<std::uint8_t> indicators;
    indicators.reserve(at(options.nodes) * at(options.classes));
    for_indicator_runs(labels, options.classes, [&](std::span<const std::uint8_t> rows) {
      indicators.insert(indicators.end(), rows.begin(), rows.end());
    });
    dataset.labels.indicators = std::move(indicators);
    dataset.labels.labelled = std::vector<std::uint8_t>(at(options.nodes), 1);
  } else {
    dataset.labels.class_of = stated_classes(labels);
  }
  dataset.splits.push_back({draw_roles(options)});
  return dataset;
}

std::int64_t generation_bytes(const GenerateOptions& options) {
  check_generate_options(options);
  // Peaks of the process with 1 to 4 million nodes and 1 to 20 million edges.
  const std::int64_t a_node = options.model == GraphModel::rmat ? 40 : 58, an_edge = 16;
  constexpr std::int64_t most_edges = std::int64_t{1} << 56;
  return options.nodes * a_node + std::min(options.edges, most_edges) * an_edge;
}

GeneratedCounts generate_to(const GenerateOptions& options, const std::filesystem::path& directory,
                            bool overwrite, const LogCallback& log) {
  check_generate_options(options);
  const auto report = [&](const std::string& sentence) {
    if (log) log(LogLevel::info, sentence);
  };
  GeneratedCounts counts;
  NativeWriter writer(directory, overwrite);
  ThreadPool pool = make_pool();
  const LabelLists labels(options);
  {
    report(fmt::format("drawing {} edges over {} nodes", options.edges, options.nodes));
    const Graph graph = draw_graph(options, labels, pool);
    counts.edges = graph.entries() / 2;
    report(fmt::format("drew {} different edges", counts.edges));
    writer.append(native_array::offsets, graph.offsets.span());
    writer.append(native_array::neighbours, graph.neighbours.span());
  }
  report("drawing features");
  for_feature_runs(options, labels, pool, [&](std::span<const float> rows) {
    writer.append(native_array::features, rows);
  });
  if (options.multilabel) {
    for_indicator_runs(labels, options.classes, [&](std::span<const std::uint8_t> rows) {
      writer.append(native_array::indicators, rows);
    });
    const std::vector<std::uint8_t> labelled(at(options.nodes), 1);
    writer.append(native_array::labelled, std::span<const std::uint8_t>(labelled));
  } else {
    const std::vector<std::int32_t> classes = stated_classes(labels);
    writer.append(native_array::class_of, std::span<const std::int32_t>(classes));
  }
  const std::vector<Role> role = draw_roles(options);
  writer.append(native_array::role(0), std::span<const Role>(role));

  Dataset dataset = empty_dataset(options);
  dataset.graph.nodes = options.nodes;
  dataset.splits.resize(1);
  writer.finish(dataset);
  counts.training_nodes = std::ranges::count(role, Role::train);
  counts.validation_nodes = std::ranges::count(role, Role::validation);
  counts.test_nodes = std::ranges::count(role, Role::test);
  return counts;
}

}  // namespace heliograph
