#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/plural.hpp"
#include "graph/canonical.hpp"
#include "graph/io/edge_arrays.hpp"
#include "graph/io/npz.hpp"
#include "graph/io/number_table.hpp"
#include "graph/io/parts.hpp"
#include "graph/io/published.hpp"
#include "graph/io/readers.hpp"
#include "graph/refuse.hpp"

namespace heliograph {
namespace fs = std::filesystem;

namespace {

/// The table of this name in a folder: NAME.csv.gz or NAME.csv.
fs::path table(const fs::path& folder, const char* name) {
  const fs::path plain = folder / fmt::format("{}.csv", name);
  return fs::exists(plain) ? plain : fs::path(plain.string() + ".gz");
}

/// The number of nodes or edges, of which there is one for each graph.
std::int64_t only_number(const NpyArray& array) {
  const std::vector<std::int64_t> numbers = to_int64(array);
  if (numbers.size() != 1) {
    refuse(array.name, "holds {} numbers; only data of one graph are supported", numbers.size());
  }
  return numbers[0];
}

/// For each node the mean of the features of its edges, whose rows are in the order of `edges`.
Features mean_of_edges(const fs::path& file, const std::vector<Edge>& edges, std::int64_t nodes) {
  // Memory grows with the rows that are read, as few edges may claim many nodes.
  constexpr std::int64_t kMostNodesAnEnd = 16;
  NumberRows numbers(file);
  std::vector<std::int64_t> place(static_cast<std::size_t>(nodes), -1), degree;
  std::vector<double> sums, row;
  std::size_t i = 0;
  for (; numbers.next(row); ++i) {
    if (i == edges.size()) numbers.refuse("is a row too many for {} edges", edges.size());
    for (const NodeId node : {edges[i].first, edges[i].second}) {
      std::int64_t& at = place[static_cast<std::size_t>(node)];
      if (at < 0) {
        at = std::ssize(degree);
        degree.push_back(0);
        sums.resize(sums.size() + row.size());
      }
      const auto begin = static_cast<std::size_t>(at) * row.size();
      ++degree[static_cast<std::size_t>(at)];
      for (std::size_t c = 0; c < row.size(); ++c) sums[begin + c] += row[c];
    }
  }
  if (i != edges.size()) refuse(file, "has {} rows for {} edges", i, edges.size());
  if (nodes / kMostNodesAnEnd > std::ssize(degree)) {
    refuse(file, "has features for the edges of {} of {} nodes: too few to be those of the nodes",
           degree.size(), nodes);
  }
  std::vector<float> means(static_cast<std::size_t>(nodes) * row.size());
  for (std::size_t j = 0; j < means.size(); ++j) {
    const std::int64_t at = place[j / row.size()];
    if (at < 0) continue;
    const double sum = sums[static_cast<std::size_t>(at) * row.size() + j % row.size()];
    means[j] = static_cast<float>(sum / static_cast<double>(degree[static_cast<std::size_t>(at)]));
  }
  return dense_features(
      as_array(file.string(), std::move(means), {nodes, static_cast<std::int64_t>(row.size())}));
}

/// Adds the lists of split/NAME as train_idx, valid_idx and test_idx. A split_dict.pt is not read.
void add_split(const fs::path& directory, MadeArrays& arrays) {
  constexpr std::array kLists{"train", "valid", "test"};
  std::vector<std::string> names;
  if (fs::is_directory(directory)) {
    for (const auto& entry : fs::directory_iterator(directory)) {
      // One list is enough, so that a missing one is an error and not a graph without a split.
      if (std::ranges::any_of(
              kLists, [&](const char* list) { return fs::exists(table(entry.path(), list)); })) {
        names.push_back(entry.path().filename());
      }
    }
  }
  std::ranges::sort(names);
  if (names.empty() && fs::exists(directory)) arrays.add_unread(directory.filename());
  if (names.empty()) return;
  for (const char* list : kLists) {
    const fs::path file = table(directory / names[0], list);
    arrays.add(
        fmt::format("{}_idx", list),
        [=] {
          if (names.size() > 1) refuse(directory, "has {}; keep one of them", listed(names, "and"));
          return read_number_table<double>(file);
        },
        fs::relative(file, directory.parent_path()).string());
  }
}

}  // namespace

bool is_ogb(const fs::path& path) {
  const fs::path raw = path / "raw";
  return fs::exists(raw / "data.npz") || fs::exists(table(raw, "edge")) ||
         fs::exists(raw / "relations");
}

Dataset read_ogb(const fs::path& directory, const ImportOptions& options, ImportCounts& counts) {
  const fs::path raw = directory / "raw";
  if (fs::exists(raw / "relations")) {
    refuse(raw,
           "holds a graph with several types of nodes, such as ogbn-mag; only graphs with one "
           "type are supported");
  }
  const bool binary = fs::exists(raw / "data.npz");
  std::optional<NpzArchive> data;
  if (binary) data.emplace(raw / "data.npz");
  const std::int64_t nodes =
      only_number(binary ? data->read("num_nodes_list")
                         : read_number_table<double>(table(raw, "num-node-list")));

  // The number of labels proves that there are so many nodes, before memory is allocated for them.
  const NpyArray labels = binary ? NpzArchive(raw / "node-label.npz").read("node_label")
                                 : read_number_table<double>(table(raw, "node-label"), nodes);
  const RowCount rows = rows_of_labels(labels);
  if (rows.rows != nodes) refuse(rows.name, "has {} rows for {} nodes", rows.rows, nodes);

  Dataset dataset;
  const fs::path features = table(raw, "node-feat"), edge_features = table(raw, "edge-feat");
  std::string feature_name = features;
  const bool by_edges = !binary && !fs::exists(features) && fs::exists(edge_features);
  if (binary) {
    const NpyArray array = data->read("node_feat");
    feature_name = array.name;
    dataset.features = dense_features(array);
    const EdgeArrays edges(data->read("edge_index"), false);
    dataset.graph = edges.graph(nodes, {}, {}, options, counts, edges.name());
  } else {
    const fs::path file = table(raw, "edge");
    const std::int64_t expected =
        only_number(read_number_table<double>(table(raw, "num-edge-list")));
    EdgeList edges = read_edge_file(file, {}, rows, options, 2, expected);
    if (static_cast<std::int64_t>(edges.edges.size()) != expected) {
      refuse(file, "has {} edges, not {} as num-edge-list says", edges.edges.size(), expected);
    }
    if (by_edges && options.log) {
      options.log(LogLevel::info,
                  fmt::format("{}: nodes have no features; each gets the mean of its edges'",
                              edge_features.string()));
    }
    dataset.features = by_edges ? mean_of_edges(edge_features, edges.edges, nodes)
                                : dense_features(read_number_table<float>(features, nodes));
    dataset.graph =
        build_graph(nodes, std::move(edges), options.keep_direction, counts, file.string());
  }
  agree_on_nodes({rows, {feature_name, dataset.features.rows, dataset.features.cols}});
  MadeArrays arrays(directory.string());
  arrays.add("labels", [&] { return labels; });
  add_split(directory / "split", arrays);
  std::set<std::string> used{"edge",          "node-feat",     "node-label",
                             "num-node-list", "num-edge-list", "data"};
  if (by_edges) used.insert("edge-feat");
  for (const auto& entry : fs::directory_iterator(raw)) {
    const std::string name = entry.path().filename();
    if (!used.contains(name.substr(0, name.find('.')))) arrays.add_unread(name);
  }
  read_targets(arrays, options, dataset);
  compare_with_published(InputFormat::ogb, counts, options);
  return dataset;
}

}  // namespace heliograph
