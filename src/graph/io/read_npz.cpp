#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/throw_error.hpp"
#include "graph/canonical.hpp"
#include "graph/edge_weights.hpp"
#include "graph/io/csr_members.hpp"
#include "graph/io/edge_arrays.hpp"
#include "graph/io/npz.hpp"
#include "graph/io/parts.hpp"
#include "graph/io/published.hpp"
#include "graph/io/readers.hpp"
#include "graph/refuse.hpp"

namespace heliograph {
namespace {

Array<float> read_values(const NpzArchive& archive, const std::string& member, std::size_t count) {
  const NpyArray array = archive.read(member);
  Array<float> values = to_float32(array);
  if (values.size() != count) {
    refuse(array.name, "holds {} values for {} indices", values.size(), count);
  }
  return values;
}

/// The member of this name as the weights of `count` edges; empty if there is none, if it is to be
/// ignored and if all weights are 1.
Array<float> read_weights(const NpzArchive& archive, const char* member, std::size_t count,
                          const ImportOptions& options) {
  if (member == nullptr || !archive.has(member)) return {};
  const NpyArray array = archive.read(member);
  if (options.ignore_weights) return {};
  Array<float> weights = to_float32(array, true);
  if (!is_flat(array) || weights.size() != count) {
    refuse(array.name, "has shape {}; {} edges have weights of shape ({},)", array.shape_text(),
           count, count);
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_edge_weight(weights[i])) {
      refuse(array.name, "the weight of edge {} is {}, which is neither 0 nor a normal fp32 number",
             i, weights[i]);
    }
  }
  const bool all_one = std::ranges::all_of(weights, [](float weight) { return weight == 1.0F; });
  return all_one ? Array<float>() : weights;
}

Graph graph_from_triple(const NpzArchive& archive, const ImportOptions& options,
                        ImportCounts& counts) {
  const CsrMembers triple = read_csr_members(archive, "adj_");
  if (triple.rows != triple.cols) {
    refuse(archive.where(), "the adjacency is {} x {}, not square", triple.rows, triple.cols);
  }
  const Array<float> weights = read_weights(archive, "adj_data", triple.columns.size(), options);
  const auto for_each_edge = [&](auto&& use) {
    triple.for_each([&](NodeId row, NodeId column, std::size_t entry) {
      use(row, column, weights.empty() ? 1.0F : weights[entry]);
    });
  };
  return build_graph(triple.rows, options.keep_direction, counts, for_each_edge,
                     archive.where() + ": member adj_data");
}

/// Of an array of shape (2, 2), the name decides: edge_index has sources above targets.
EdgeArrays read_edges(const NpzArchive& archive) {
  const auto found = archive.find(kEdgeNames);
  if (found) return {*found, archive.has("edges")};
  if (archive.has("src") && archive.has("dst")) {
    return {archive.where() + ": members src and dst", archive.read("src"), archive.read("dst")};
  }
  for (const auto& [one, other] : {std::pair("src", "dst"), std::pair("dst", "src")}) {
    if (!archive.has(one)) continue;
    refuse(archive.where(), "has a member {} but no {}: edges need both ends", one, other);
  }
  archive.refuse_missing("graph", kEdgeNames, "adj_indptr");
}

Features read_npz_features(const NpzArchive& archive) {
  if (const auto dense = archive.find(kFeatureNames)) return dense_features(*dense);
  if (!archive.has("attr_indptr")) archive.refuse_missing("features", kFeatureNames, "attr_indptr");
  CsrMembers triple = read_csr_members(archive, "attr_");
  const Array<float> values = read_values(archive, "attr_data", triple.columns.size());
  return sparse_features(triple.cols, std::move(triple.offsets), std::move(triple.columns),
                         {values.begin(), values.end()}, archive.where());
}

}  // namespace

bool is_npz(const std::filesystem::path& path) {
  return path.extension() == ".npz" && !std::filesystem::is_directory(path);
}

Dataset read_npz_dataset(const std::filesystem::path& file, const ImportOptions& options,
                         ImportCounts& counts) {
  const NpzArchive archive(file);
  Dataset dataset;
  dataset.features = read_npz_features(archive);
  const char* member = dataset.features.sparse ? "attr_shape" : archive.first_of(kFeatureNames);
  std::vector<RowCount> rows{{fmt::format("{}: member {}", archive.where(), member),
                              dataset.features.rows, dataset.features.cols}};
  // If only these two disagree, the features are wrong rather than the labels.
  if (const auto labels = archive.find(kLabelNames)) {
    rows.insert(rows.begin(), rows_of_labels(*labels));
  }
  if (archive.has("adj_indptr")) {
    if (options.index_base >= 0) {
      throw_error(ErrorCode::usage,
                  "--index-base does not apply: {} holds a CSR matrix, whose nodes count from 0; "
                  "leave it out",
                  archive.where());
    }
    dataset.graph = graph_from_triple(archive, options, counts);
    rows.insert(rows.begin(), {archive.where() + ": member adj_shape", dataset.graph.nodes, 0});
    agree_on_nodes(rows);
  } else {
    const EdgeArrays edges = read_edges(archive);
    const int base = options.index_base == 1 ? 1 : 0;
    const std::int64_t nodes =
        agree_on_nodes(rows, std::max<std::int64_t>(edges.largest(), 0) - base);
    const Array<float> weights = read_weights(archive, archive.first_of(kWeightNames),
                                              static_cast<std::size_t>(edges.count()), options);
    dataset.graph = edges.graph(nodes, base, weights, options, counts, archive.where());
  }
  if (dataset.graph.nodes == 0) refuse(archive.where(), "the graph has no nodes");
  read_targets(archive, options, dataset);
  compare_with_published(InputFormat::npz, counts, options);
  return dataset;
}

}  // namespace heliograph
