#include <fmt/format.h>

#include "graph/io/npy.hpp"
#include "graph/io/parts.hpp"
#include "graph/io/readers.hpp"
#include "graph/refuse.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

std::optional<NpyArray> read_npy_if_present(const fs::path& file) {
  if (!fs::exists(file)) return std::nullopt;
  return read_npy(file);
}

SplitArrays split_arrays(const fs::path& directory, const char* word) {
  const auto named = [&](const char* set) {
    return read_npy_if_present(directory / fmt::format("{}_{}.npy", set, word));
  };
  return {named("train"), named("val"), named("test")};
}

}  // namespace

void check_claimed_nodes(const fs::path& file, std::int64_t nodes) {
  const auto labels = read_npy_if_present(file.parent_path() / "labels.npy");
  if (!labels) refuse(file.parent_path(), "has no labels: labels.npy is missing");
  // Labels that take no bytes do not prove that there are so many nodes.
  const bool fits =
      !labels->shape.empty() && labels->shape[0] == nodes && (nodes == 0 || !labels->data.empty());
  if (!fits) {
    refuse(file, "has {} nodes, but {} has shape {}", nodes, labels->name, labels->shape_text());
  }
}

Features read_side_features(const fs::path& directory) {
  const bool dense = fs::exists(directory / "features.npy");
  const bool market = fs::exists(directory / "features.mtx");
  if (dense && market) refuse(directory, "holds features.npy and features.mtx; keep one of them");
  if (dense) return dense_features(read_npy(directory / "features.npy"));
  if (market) return read_market_features(directory / "features.mtx");
  refuse(directory, "has no features: features.npy (or features.mtx) is missing");
}

void read_side_targets(const fs::path& directory, const ImportOptions& options, Dataset& dataset) {
  const std::int64_t nodes = dataset.graph.nodes;
  const auto labels = read_npy_if_present(directory / "labels.npy");
  if (!labels) refuse(directory, "has no labels: labels.npy is missing");
  dataset.labels = make_labels(*labels, nodes);
  if (const auto names = read_npy_if_present(directory / "class_names.npy")) {
    dataset.class_names = make_class_names(*names, dataset.labels);
  }
  const SplitArrays masks = split_arrays(directory, "mask");
  const SplitArrays indices = split_arrays(directory, "index");
  if (masks.any() && indices.any()) {
    refuse(directory,
           "holds masks (train_mask.npy ...) and index files (train_index.npy ...); "
           "keep one of the two");
  }
  if (masks.any()) dataset.splits = splits_from_masks(masks, dataset.labels, nodes, options.log);
  if (indices.any()) {
    dataset.splits = split_from_indices(indices, dataset.labels, nodes, options.log);
  }
}

}  // namespace heliograph
