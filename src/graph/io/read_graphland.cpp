#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/plural.hpp"
#include "graph/canonical.hpp"
#include "graph/io/flat_yaml.hpp"
#include "graph/io/normal_quantiles.hpp"
#include "graph/io/number_table.hpp"
#include "graph/io/parts.hpp"
#include "graph/io/published.hpp"
#include "graph/io/readers.hpp"
#include "graph/refuse.hpp"

namespace heliograph {
namespace fs = std::filesystem;

namespace {

/// The names of features by their kind, as info.yaml lists them.
struct FeatureNames {
  std::vector<std::string> numerical, fraction, categorical;

  explicit FeatureNames(const FlatYaml& info)
      : fraction(info.list("fraction_features_names")),
        categorical(info.list("categorical_features_names")) {
    // Fractions are listed among the numerical features too.
    for (const std::string& name : info.list("numerical_features_names")) {
      if (std::ranges::find(fraction, name) == fraction.end()) numerical.push_back(name);
    }
  }
};

/// features.csv as it is: the columns in the order of FeatureNames.
struct Table {
  std::int64_t rows = 0;
  std::vector<std::vector<float>> numbers;  ///< Numerical ones, then fractions.
  std::vector<std::vector<std::int32_t>> categories;
};

Table read_table(const fs::path& file, const FeatureNames& names, MadeArrays& arrays) {
  std::vector<std::string> all = names.numerical;
  all.insert(all.end(), names.fraction.begin(), names.fraction.end());
  Table table;
  table.numbers.resize(all.size());
  table.categories.resize(names.categorical.size());
  all.insert(all.end(), names.categorical.begin(), names.categorical.end());
  NamedColumns columns(file, all);
  for (const std::string& name : columns.unused()) arrays.add_unread("features.csv: " + name);
  for (std::vector<double> row; columns.next(row); ++table.rows) {
    std::size_t i = 0;
    for (auto& column : table.numbers) {
      column.push_back(static_cast<float>(row[i]));
      if (std::isinf(column.back()))
        columns.refuse("{} is {}, not a number of fp32", all[i], row[i]);
      ++i;
    }
    for (auto& column : table.categories) {
      const double category = row[i];
      if (category != std::trunc(category) ||
          std::abs(category) > std::numeric_limits<std::int32_t>::max()) {
        columns.refuse("{} is {}, and a category is a whole number of 32 bits", all[i], category);
      }
      column.push_back(static_cast<std::int32_t>(category));
      ++i;
    }
  }
  return table;
}

/// Fills missing numbers and, with `normal`, transforms all to a normal distribution. Returns how
/// many were missing.
std::int64_t prepare(std::vector<float>& column, bool normal, const fs::path& file,
                     const std::string& name) {
  const std::vector<float> sorted = sorted_numbers(column);
  if (sorted.empty()) refuse(file, "{}", legible(fmt::format("the column {} is empty", name)));
  fill_missing(column, sorted);
  if (normal) to_normal_quantiles(column, sorted);
  return std::ssize(column) - std::ssize(sorted);
}

/// The categories that get a feature, ascending: all, or the larger one of two.
std::vector<std::int32_t> encoded(const std::vector<std::int32_t>& column) {
  std::vector<std::int32_t> values = column;
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (values.size() == 2) values.erase(values.begin());
  return values;
}

Features make_features(const fs::path& file, const FeatureNames& names, bool normal_fractions,
                       Table table, const LogCallback& log) {
  std::int64_t missing = 0;
  const std::size_t numerical = names.numerical.size();
  for (std::size_t i = 0; i < table.numbers.size(); ++i) {
    const bool fraction = i >= numerical;
    missing += prepare(table.numbers[i], !fraction || normal_fractions, file,
                       fraction ? names.fraction[i - numerical] : names.numerical[i]);
  }
  std::vector<std::vector<std::int32_t>> blocks;
  std::size_t cols = table.numbers.size();
  for (std::size_t i = 0; i < table.categories.size(); ++i) {
    blocks.push_back(encoded(table.categories[i]));
    cols += blocks.back().size();
  }
  // More would let a short hostile file fill memory: beyond 1 GiB, only as much for its length.
  constexpr std::size_t kMostNumbers = std::size_t{1} << 28, kMostForAFeature = 128;
  const std::size_t one_hot = cols - table.numbers.size();
  if (one_hot > kMostForAFeature * blocks.size() &&
      one_hot > kMostNumbers / static_cast<std::size_t>(std::max<std::int64_t>(table.rows, 1))) {
    refuse(file,
           "{} categorical features have {} categories for {} nodes; beyond 2^28 one-hot numbers, "
           "at most {} a feature are read",
           blocks.size(), one_hot, table.rows, kMostForAFeature);
  }
  std::vector<float> out(static_cast<std::size_t>(table.rows) * cols);
  for (std::size_t v = 0; v < static_cast<std::size_t>(table.rows); ++v) {
    float* to = out.data() + v * cols;
    for (const auto& column : table.numbers) *to++ = column[v];
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto at = std::ranges::lower_bound(blocks[i], table.categories[i][v]);
      if (at != blocks[i].end() && *at == table.categories[i][v]) to[at - blocks[i].begin()] = 1;
      to += blocks[i].size();
    }
  }
  if (log) {
    log(LogLevel::info,
        fmt::format("{}: {} numerical features by quantiles, {} fractions {}, {} categorical "
                    "features one-hot; {} filled in",
                    file.string(), numerical, names.fraction.size(),
                    normal_fractions ? "too" : "as they are", blocks.size(),
                    counted(missing, "missing number")));
  }
  return dense_features(
      as_array(file.string(), std::move(out), {table.rows, static_cast<std::int64_t>(cols)}));
}

NpyArray read_labels(const fs::path& file, const std::string& target) {
  NamedColumns columns(file, {target});
  std::vector<double> values;
  for (std::vector<double> row; columns.next(row);) values.push_back(row[0]);
  const std::int64_t nodes = std::ssize(values);
  return as_array(file.string(), std::move(values), {nodes});
}

/// The files with splits that exist, RL before RH before TH.
std::vector<fs::path> split_files(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const char* name : {"RL", "RH", "TH"}) {
    const fs::path file = directory / fmt::format("split_masks_{}.csv", name);
    if (fs::exists(file)) files.push_back(file);
  }
  return files;
}

constexpr const char* kRoles[] = {"train", "val", "test"};

/// The flags of each role: an array of shape (splits, nodes).
std::vector<NpyArray> read_masks(const fs::path& directory, const std::vector<fs::path>& files,
                                 std::int64_t nodes) {
  std::array<std::vector<double>, std::size(kRoles)> flags;
  for (const fs::path& file : files) {
    NamedColumns columns(file, {std::begin(kRoles), std::end(kRoles)});
    std::int64_t rows = 0;
    for (std::vector<double> row; columns.next(row); ++rows) {
      for (std::size_t role = 0; role < flags.size(); ++role) flags[role].push_back(row[role]);
    }
    if (rows != nodes) refuse(file, "has {} rows for {} nodes", rows, nodes);
  }
  std::vector<NpyArray> arrays;
  for (std::size_t role = 0; role < flags.size(); ++role) {
    arrays.push_back(as_array(
        fmt::format("{}: column {}", (directory / "split_masks_*.csv").string(), kRoles[role]),
        std::move(flags[role]), {std::ssize(files), nodes}));
  }
  return arrays;
}

}  // namespace

bool is_graphland(const fs::path& path) {
  return fs::exists(path / "edgelist.csv") && fs::exists(path / "info.yaml");
}

Dataset read_graphland(const fs::path& directory, const ImportOptions& given,
                       ImportCounts& counts) {
  const FlatYaml info(directory / "info.yaml");
  const std::string task = info.text("task");
  ImportOptions options = given;
  options.regression = task == "regression";
  options.ignore_weights = true;  // A third column of edgelist.csv is not used there either.
  if (!options.regression && task.find("class") == std::string::npos) {
    refuse(directory / "info.yaml", "the task is {}, neither a classification nor regression",
           legible(task));
  }
  const NpyArray labels = read_labels(directory / "targets.csv", info.text("target_name"));
  const std::int64_t nodes = labels.shape[0];
  MadeArrays arrays(directory.string());
  const fs::path file = directory / "features.csv";
  const FeatureNames names(info);
  Table table = read_table(file, names, arrays);
  const RowCount rows{labels.name, nodes, 1};
  agree_on_nodes({rows, {file.string(), table.rows, 0}});
  const std::string name = info.has("dataset_name") ? info.text("dataset_name")
                                                    : fs::absolute(directory).filename().string();
  const bool normal_fractions = name == "avazu-ctr" || name == "artnet-views";
  Dataset dataset;
  dataset.features = make_features(file, names, normal_fractions, std::move(table), options.log);
  const fs::path edges = directory / "edgelist.csv";
  dataset.graph = build_graph(nodes, read_edge_file(edges, {}, rows, options),
                              options.keep_direction, counts, edges.string());
  arrays.add("labels", [&] { return labels; });
  const std::vector<fs::path> splits = split_files(directory);
  std::vector<NpyArray> masks;
  for (std::size_t role = 0; role < std::size(kRoles) && !splits.empty(); ++role) {
    arrays.add(fmt::format("{}_masks", kRoles[role]), [&, role] {
      if (masks.empty()) masks = read_masks(directory, splits, nodes);
      return masks[role];
    });
  }
  read_targets(arrays, options, dataset);
  compare_with_published(InputFormat::graphland, counts, options);
  return dataset;
}

}  // namespace heliograph
