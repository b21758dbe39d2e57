#include "graph/io/npy.hpp"
#include "graph/io/parts.hpp"
#include "graph/io/readers.hpp"
#include "graph/refuse.hpp"

namespace heliograph {
namespace fs = std::filesystem;

void check_claimed_nodes(const fs::path& file, std::int64_t nodes) {
  const NpyArray labels = FolderArrays(file.parent_path()).require("labels", kLabelNames);
  // Labels that take no bytes do not prove that there are so many nodes.
  const bool fits =
      !labels.shape.empty() && labels.shape[0] == nodes && (nodes == 0 || !labels.data.empty());
  if (!fits) {
    refuse(file, "has {} nodes, but {} has shape {}", nodes, labels.name, labels.shape_text());
  }
}

Features read_side_features(const fs::path& directory, const ArraySource& arrays) {
  const auto dense = arrays.find(kFeatureNames);
  const bool market = fs::exists(directory / "features.mtx");
  if (dense && market) refuse(directory, "has features.mtx and {}; keep one of them", dense->name);
  if (market) return read_market_features(directory / "features.mtx");
  if (!dense) arrays.refuse_missing("features", kFeatureNames, "features.mtx");
  return dense_features(*dense);
}

void read_targets(const ArraySource& arrays, const ImportOptions& options, Dataset& dataset) {
  const std::int64_t nodes = dataset.graph.nodes;
  dataset.labels = make_labels(arrays.require("labels", kLabelNames), nodes);
  if (const auto names = arrays.find(kClassNames)) {
    dataset.class_names = make_class_names(*names, dataset.labels);
  }
  const SplitArrays masks{arrays.find(kTrainMasks), arrays.find(kValidationMasks),
                          arrays.find(kTestMasks)};
  const SplitArrays indices{arrays.find(kTrainIndices), arrays.find(kValidationIndices),
                            arrays.find(kTestIndices)};
  if (masks.any() && indices.any()) {
    refuse(arrays.where(),
           "has masks (train_mask ...) and lists of nodes (train_idx ...); keep one of the two");
  }
  if (masks.any()) dataset.splits = splits_from_masks(masks, dataset.labels, nodes, options.log);
  if (indices.any()) {
    dataset.splits = split_from_indices(indices, dataset.labels, nodes, options.log);
  }
  arrays.log_unread(options.log);
}

}  // namespace heliograph
