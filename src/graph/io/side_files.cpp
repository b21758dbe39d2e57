#include <fmt/format.h>

#include "core/throw_error.hpp"
#include "graph/io/npy.hpp"
#include "graph/io/parts.hpp"
#include "graph/io/readers.hpp"
#include "graph/refuse.hpp"
#include "heliograph/error.hpp"

namespace heliograph {
namespace fs = std::filesystem;

namespace {

std::vector<Split> read_splits(const ArraySource& arrays, const Labels& labels, std::int64_t nodes,
                               const LogCallback& log) {
  const SplitArrays masks{arrays.find(kTrainMasks), arrays.find(kValidationMasks),
                          arrays.find(kTestMasks)};
  const SplitArrays indices{arrays.find(kTrainIndices), arrays.find(kValidationIndices),
                            arrays.find(kTestIndices)};
  if (masks.any() && indices.any()) {
    refuse(arrays.where(),
           "has masks (train_mask ...) and lists of nodes (train_idx ...); keep one of the two");
  }
  if (masks.any()) return splits_from_masks(masks, labels, nodes, log);
  if (indices.any()) return split_from_indices(indices, labels, nodes, log);
  return {};
}

/// Whether a file has this extension and is none of Planetoid's pickles, such as ind.cora.graph.
bool is_graph_file(const fs::path& file, const std::string& extension) {
  return file.extension() == '.' + extension && !file.filename().string().starts_with("ind.");
}

/// Such files of a directory but that of features.
std::vector<fs::path> graph_files(const fs::path& directory, const std::string& extension) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const fs::path& file = entry.path();
    if (is_graph_file(file, extension) && file.stem() != "features") found.push_back(file);
  }
  return found;
}

}  // namespace

fs::path graph_file_of(const fs::path& path, const char* extension) {
  if (!fs::is_directory(path)) return path;
  const fs::path named = path / fmt::format("graph.{}", extension);
  if (fs::exists(named)) return named;
  const std::vector<fs::path> found = graph_files(path, extension);
  if (found.empty()) {
    throw_error(ErrorCode::bad_input, "{} holds no .{} graph", path.string(), extension);
  }
  if (found.size() > 1) {
    throw_error(ErrorCode::bad_input,
                "{} holds several .{} files; rename the one with the graph to {}", path.string(),
                extension, named.filename().string());
  }
  return found.front();
}

bool has_graph_file(const fs::path& path, const char* extension) {
  if (!fs::is_directory(path)) return is_graph_file(path, extension);
  return !graph_files(path, extension).empty();
}

void check_claimed_nodes(const fs::path& file, std::int64_t nodes, const ImportOptions& options) {
  const FolderArrays arrays(file.parent_path());
  const bool labelled = options.requires_labels || arrays.first_of(kLabelNames) != nullptr;
  const NpyArray labels =
      labelled ? arrays.require("labels", kLabelNames) : arrays.require("features", kFeatureNames);
  if (labels.shape.empty() || rows_of_labels(labels).rows != nodes) {
    refuse(file, "has {} nodes, but {} has shape {}", nodes, labels.name, labels.shape_text());
  }
}

Features read_side_features(const fs::path& directory, const ArraySource& arrays) {
  const auto dense = arrays.find(kFeatureNames);
  const bool market = fs::exists(directory / "features.mtx");
  if (dense && market) refuse(directory, "has features.mtx and {}; keep one of them", dense->name);
  if (market) return read_market_features(directory / "features.mtx");
  if (!dense) {
    arrays.refuse_missing("features", kFeatureNames,
                          "features.mtx (if nodes have none, numpy.save a column of ones)");
  }
  return dense_features(*dense);
}

RowCount rows_of_side_features(const fs::path& directory, const ArraySource& arrays,
                               const Features& features) {
  const char* dense = arrays.first_of(kFeatureNames);
  const auto file = dense == nullptr ? "features.mtx" : std::string(dense) + ".npy";
  return {(directory / file).string(), features.rows, features.cols};
}

void read_targets(const ArraySource& arrays, const ImportOptions& options, Dataset& dataset) {
  const std::int64_t nodes = dataset.graph.nodes;
  const bool unlabelled = !options.requires_labels && arrays.first_of(kLabelNames) == nullptr;
  if (unlabelled) {
    dataset.labels.classes = 1;
    dataset.labels.class_of = std::vector<std::int32_t>(static_cast<std::size_t>(nodes), -1);
  } else {
    dataset.labels = make_labels(arrays.require("labels", kLabelNames), nodes, options.regression);
    const auto names = arrays.find(kClassNames);
    if (names && !options.regression) {
      dataset.class_names = make_class_names(*names, dataset.labels);
      if (dataset.class_names.empty()) arrays.leave_unread(arrays.first_of(kClassNames));
    }
  }
  if (may_have_splits(options, dataset.labels)) {
    try {
      dataset.splits = read_splits(arrays, dataset.labels, nodes, options.log);
    } catch (const Error& error) {
      if (options.requires_splits || error.code() != ErrorCode::bad_input) throw;
      if (options.log) {
        options.log(LogLevel::warning,
                    fmt::format("{}; the input's own splits are unused", error.what()));
      }
    }
  }
  arrays.log_unread(options.log);
}

void read_sides(const fs::path& file, const ImportOptions& options, Dataset& dataset) {
  const fs::path directory = file.parent_path();
  const FolderArrays arrays(directory);
  dataset.features = read_side_features(directory, arrays);
  agree_on_nodes({{file.string(), dataset.graph.nodes, 0},
                  rows_of_side_features(directory, arrays, dataset.features)});
  read_targets(arrays, options, dataset);
}

}  // namespace heliograph
