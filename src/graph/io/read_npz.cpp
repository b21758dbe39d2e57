#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/canonical.hpp"
#include "graph/edge_weights.hpp"
#include "graph/io/csr_members.hpp"
#include "graph/io/npz.hpp"
#include "graph/io/parts.hpp"
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

/// The ends of listed edges: source and target of one edge after the other, or all sources before
/// all targets.
struct EdgeEnds {
  std::string name;
  bool by_edge = false;
  std::vector<std::int64_t> nodes;
};

/// (edges, 2) has one edge a row, (2, edges) sources above targets. Of an array of shape (2, 2),
/// the name decides: edge_index is the latter.
EdgeEnds read_edges(const NpzArchive& archive) {
  if (!archive.has("edges") && !archive.has("edge_index") && archive.has("src") &&
      archive.has("dst")) {
    EdgeEnds ends{archive.where() + ": members src and dst", false, to_int64(archive.read("src"))};
    const std::vector<std::int64_t> targets = to_int64(archive.read("dst"));
    if (targets.size() != ends.nodes.size()) {
      refuse(archive.where(), "src holds {} nodes and dst {}: an edge needs one of each",
             ends.nodes.size(), targets.size());
    }
    ends.nodes.insert(ends.nodes.end(), targets.begin(), targets.end());
    return ends;
  }
  const auto found = archive.find(kEdgeNames);
  for (const auto& [one, other] : {std::pair("src", "dst"), std::pair("dst", "src")}) {
    if (found || !archive.has(one)) continue;
    refuse(archive.where(), "has a member {} but no {}: edges need both ends", one, other);
  }
  if (!found) archive.refuse_missing("graph", kEdgeNames, "adj_indptr");
  const NpyArray& array = *found;
  const bool pairs = array.shape.size() == 2 && array.shape[1] == 2;
  const bool lists = array.shape.size() == 2 && array.shape[0] == 2;
  if (!pairs && !lists) {
    refuse(array.name, "has shape {}; edges are (edges, 2) or (2, edges)", array.shape_text());
  }
  return {array.name, pairs && !(lists && !archive.has("edges")), to_int64(array)};
}

Graph graph_from_edges(const NpzArchive& archive, const EdgeEnds& listed, std::int64_t base,
                       std::int64_t nodes, const ImportOptions& options, ImportCounts& counts) {
  const auto& [name, by_edge, ends] = listed;
  EdgeList list;
  std::vector<Edge>& edges = list.edges;
  edges.resize(ends.size() / 2);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const std::int64_t node = ends[i] - base;
    if (node < 0 || node >= nodes) {
      const std::size_t cols = by_edge ? 2 : edges.size();
      const std::string entry =
          fmt::format("{}: entry [{}, {}] is node {}, which is not in [{}, {}]", name, i / cols,
                      i % cols, ends[i], base, nodes - 1 + base);
      if (base == 0 && fits_from_one(ends, nodes)) {
        throw_error(ErrorCode::bad_input,
                    "{}; all would fit if nodes were numbered from 1: use --index-base 1", entry);
      }
      throw_error(ErrorCode::bad_input, "{}", entry);
    }
    const bool is_source = by_edge ? i % 2 == 0 : i < edges.size();
    Edge& edge = edges[by_edge ? i / 2 : i % edges.size()];
    (is_source ? edge.first : edge.second) = static_cast<NodeId>(node);
  }
  const Array<float> weights =
      read_weights(archive, archive.first_of(kWeightNames), edges.size(), options);
  list.weights.assign(weights.begin(), weights.end());
  return build_graph(nodes, std::move(list), options.keep_direction, counts, archive.where());
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
    dataset.graph = graph_from_triple(archive, options, counts);
    rows.insert(rows.begin(), {archive.where() + ": member adj_shape", dataset.graph.nodes, 0});
    agree_on_nodes(rows);
  } else {
    const EdgeEnds edges = read_edges(archive);
    const std::int64_t base = options.index_base == 1 ? 1 : 0;
    const auto largest = std::ranges::max_element(edges.nodes);
    const std::int64_t last =
        largest == edges.nodes.end() ? -1 : std::max<std::int64_t>(*largest, 0) - base;
    dataset.graph =
        graph_from_edges(archive, edges, base, agree_on_nodes(rows, last), options, counts);
  }
  if (dataset.graph.nodes == 0) refuse(archive.where(), "the graph has no nodes");
  read_targets(archive, options, dataset);
  return dataset;
}

}  // namespace heliograph
