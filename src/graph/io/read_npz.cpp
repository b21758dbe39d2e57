#include <utility>

#include "graph/canonical.hpp"
#include "graph/io/npz.hpp"
#include "graph/io/parts.hpp"
#include "graph/io/readers.hpp"
#include "graph/refuse.hpp"

namespace heliograph {
namespace {

/// The structure of a CSR matrix, with checked offsets and columns.
struct Triple {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> columns;
};

Triple read_triple(const NpzArchive& archive, const std::string& prefix) {
  const NpyArray shape = archive.read(prefix + "_shape");
  const NpyArray indices = archive.read(prefix + "_indices");
  const NpyArray indptr = archive.read(prefix + "_indptr");
  const std::vector<std::int64_t> extents = to_int64(shape);
  if (extents.size() != 2 || extents[0] < 0 || extents[1] < 0) {
    refuse(shape.name, "is not the shape of a matrix");
  }
  Triple triple;
  triple.rows = extents[0];
  triple.cols = extents[1];
  triple.offsets = to_int64(indptr);
  triple.columns = to_int32(indices);
  const std::vector<std::int64_t>& offsets = triple.offsets;
  if (static_cast<std::int64_t>(offsets.size()) - 1 != triple.rows) {
    refuse(indptr.name, "holds {} values for {} rows", offsets.size(), triple.rows);
  }
  if (offsets.front() != 0) refuse(indptr.name, "does not start at 0");
  for (std::size_t r = 1; r < offsets.size(); ++r) {
    if (offsets[r] < offsets[r - 1]) refuse(indptr.name, "falls at row {}", r - 1);
  }
  if (offsets.back() != static_cast<std::int64_t>(triple.columns.size())) {
    refuse(indptr.name, "ends at {}, but there are {} indices", offsets.back(),
           triple.columns.size());
  }
  for (std::size_t i = 0; i < triple.columns.size(); ++i) {
    if (triple.columns[i] < 0 || triple.columns[i] >= triple.cols) {
      refuse(indices.name, "entry {} is {}, which is not in [0, {})", i, triple.columns[i],
             triple.cols);
    }
  }
  return triple;
}

Array<float> read_values(const NpzArchive& archive, const std::string& member, std::size_t count) {
  const NpyArray array = archive.read(member);
  Array<float> values = to_float32(array);
  if (values.size() != count) {
    refuse(array.name, "holds {} values for {} indices", values.size(), count);
  }
  return values;
}

Graph graph_from_triple(const NpzArchive& archive, const std::string& where, bool directed,
                        ImportCounts& counts) {
  const Triple triple = read_triple(archive, "adj");
  if (triple.rows != triple.cols) {
    refuse(where, "the adjacency is {} x {}, not square", triple.rows, triple.cols);
  }
  if (archive.has("adj_data")) {
    for (const float value : read_values(archive, "adj_data", triple.columns.size())) {
      if (value != 1.0F) ++counts.weights_ignored;
    }
  }
  const auto for_each_edge = [&](auto&& use) {
    for (std::size_t r = 0; r + 1 < triple.offsets.size(); ++r) {
      for (std::int64_t i = triple.offsets[r]; i < triple.offsets[r + 1]; ++i) {
        use(static_cast<NodeId>(r), triple.columns[static_cast<std::size_t>(i)]);
      }
    }
  };
  return build_graph(triple.rows, directed, counts, for_each_edge);
}

Graph graph_from_edges(const NpyArray& array, std::int64_t nodes, bool directed,
                       ImportCounts& counts) {
  if (array.shape.size() != 2 || array.shape[1] != 2) {
    refuse(array.name, "has shape {}; edges are (edges, 2), one edge a row", array.shape_text());
  }
  std::vector<Edge> edges(static_cast<std::size_t>(array.shape[0]));
  {
    const std::vector<std::int64_t> ends = to_int64(array);
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i] < 0 || ends[i] >= nodes) {
        refuse(array.name, "entry [{}, {}] is node {}, which is not in [0, {})", i / 2, i % 2,
               ends[i], nodes);
      }
      (i % 2 == 0 ? edges[i / 2].first : edges[i / 2].second) = static_cast<NodeId>(ends[i]);
    }
  }
  return build_graph(nodes, std::move(edges), directed, counts);
}

Features read_npz_features(const NpzArchive& archive, const std::string& where) {
  for (const char* member : {"node_features", "attr_matrix"}) {
    if (archive.has(member)) return dense_features(archive.read(member));
  }
  if (!archive.has("attr_indptr")) {
    refuse(where, "has no features: neither node_features, attr_matrix nor attr_indptr");
  }
  Triple triple = read_triple(archive, "attr");
  const Array<float> values = read_values(archive, "attr_data", triple.columns.size());
  return sparse_features(triple.cols, std::move(triple.offsets), std::move(triple.columns),
                         {values.begin(), values.end()}, where);
}

/// The member `one` or, if the archive has no such member, `other`.
std::optional<NpyArray> either(const NpzArchive& archive, const char* one, const char* other) {
  auto found = archive.read_if_present(one);
  return found ? found : archive.read_if_present(other);
}

}  // namespace

Dataset read_npz_dataset(const std::filesystem::path& file, const ImportOptions& options,
                         ImportCounts& counts) {
  const NpzArchive archive(file);
  const std::string where = file.string();
  const bool directed = options.keep_direction;
  Dataset dataset;
  dataset.features = read_npz_features(archive, where);
  if (archive.has("adj_indptr")) {
    dataset.graph = graph_from_triple(archive, where, directed, counts);
  } else if (const auto edges = archive.read_if_present("edges")) {
    dataset.graph = graph_from_edges(*edges, dataset.features.rows, directed, counts);
  } else {
    refuse(where, "has no graph: neither adj_indptr (CSR triple) nor edges");
  }
  const std::int64_t nodes = dataset.graph.nodes;
  check_feature_rows(dataset.features, nodes, where);
  const auto labels = either(archive, "labels", "node_labels");
  if (!labels) refuse(where, "has no labels: neither labels nor node_labels");
  dataset.labels = make_labels(*labels, nodes);
  if (const auto names = archive.read_if_present("class_names")) {
    dataset.class_names = make_class_names(*names, dataset.labels);
  }
  const SplitArrays masks = {either(archive, "train_masks", "train_mask"),
                             either(archive, "val_masks", "val_mask"),
                             either(archive, "test_masks", "test_mask")};
  if (masks.any()) {
    dataset.splits = splits_from_masks(masks, dataset.labels, nodes, options.log);
  }
  return dataset;
}

}  // namespace heliograph
