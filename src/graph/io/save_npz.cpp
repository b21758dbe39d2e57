#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/throw_error.hpp"
#include "graph/io/npz.hpp"
#include "graph/io/parts.hpp"
#include "graph/utf8.hpp"
#include "heliograph/io.hpp"

namespace heliograph {
namespace {

using Shape = std::vector<std::int64_t>;

/// An array of the data set, whose values are not copied.
template <class T>
NpyArray view(std::string name, const Array<T>& values, Shape shape) {
  constexpr char kKind = std::is_floating_point_v<T> ? 'f' : 'i';
  return {.name = std::move(name),
          .dtype = fmt::format("<{}{}", kKind, sizeof(T)),
          .shape = std::move(shape),
          .data = std::as_bytes(values.span())};
}

/// The edges u -> v of every row v, sources above targets.
NpyArray edge_index(const Graph& graph) {
  const auto entries = static_cast<std::size_t>(graph.entries());
  std::vector<std::int64_t> ends(2 * entries);
  std::ranges::copy(graph.neighbours.span().first(entries), ends.begin());
  for (std::size_t v = 0; v < static_cast<std::size_t>(graph.nodes); ++v) {
    const auto at = ends.begin() + static_cast<std::ptrdiff_t>(entries);
    std::fill(at + graph.offsets[v], at + graph.offsets[v + 1], static_cast<std::int64_t>(v));
  }
  return as_array("edge_index", std::move(ends), {2, graph.entries()});
}

NpyArray targets(const Labels& labels, std::int64_t nodes) {
  if (labels.task == Task::regression) return view("y", labels.values, {nodes});
  if (labels.task == Task::multiclass) {
    return as_array("y", std::vector<std::int64_t>(labels.class_of.begin(), labels.class_of.end()),
                    {nodes});
  }
  std::vector<float> flags(labels.indicators.begin(), labels.indicators.end());
  const auto classes = static_cast<std::size_t>(labels.classes);
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (labels.labelled[i / classes] == 0) flags[i] = -1;
  }
  return as_array("y", std::move(flags), {nodes, labels.classes});
}

/// The flags of one role: (nodes,) for one split, else (nodes, splits), or (splits, nodes) if these
/// are as many, as readers understand it.
NpyArray mask(std::string name, const std::vector<Split>& splits, std::int64_t nodes, Role role) {
  const auto count = static_cast<std::int64_t>(splits.size());
  for (const Split& split : splits) {
    if (std::ranges::find(split.role, role) != split.role.end()) continue;
    throw_error(
        ErrorCode::usage,
        "{} would be empty, and a split of an archive needs nodes to train, to validate and "
        "to test: choose another split",
        name);
  }
  const auto n = static_cast<std::size_t>(nodes), all = splits.size();
  std::vector<std::int8_t> flags(n * all);
  for (std::size_t s = 0; s < all; ++s) {
    for (std::size_t v = 0; v < n; ++v) {
      flags[n == all ? s * n + v : v * all + s] = splits[s].role[v] == role ? 1 : 0;
    }
  }
  NpyArray array =
      as_array(std::move(name), std::move(flags), count == 1 ? Shape{nodes} : Shape{nodes, count});
  array.dtype = "|b1";
  return array;
}

NpyArray class_names(const std::vector<std::string>& names) {
  std::vector<std::u32string> texts;
  for (const std::string& name : names) texts.push_back(decode_utf8(name).value());
  const std::size_t width =
      std::max<std::size_t>(1, std::ranges::max(texts, {}, &std::u32string::size).size());
  std::vector<std::int32_t> codes;
  for (std::u32string& text : texts) {
    text.resize(width);
    codes.insert(codes.end(), text.begin(), text.end());
  }
  NpyArray array = as_array("class_names", std::move(codes), {std::ssize(names)});
  array.dtype = fmt::format("<U{}", width);
  return array;
}

/// Whether no node has the last class, so that readers would find fewer classes in the labels.
bool lacks_last_class(const Labels& labels) {
  return labels.task == Task::multiclass &&
         std::ranges::find(labels.class_of, labels.classes - 1) == labels.class_of.end();
}

}  // namespace

void save_npz(const Dataset& dataset, const std::filesystem::path& file) {
  validate(dataset);
  const Graph& graph = dataset.graph;
  const Features& features = dataset.features;
  std::vector<NpyArray> arrays{edge_index(graph)};
  if (!graph.edge_weights.empty()) {
    arrays.push_back(view("edge_weight", graph.edge_weights, {graph.entries()}));
  }
  if (features.sparse) {
    const std::int64_t filled = features.values.span().size();
    arrays.push_back(view("attr_data", features.values, {filled}));
    arrays.push_back(view("attr_indices", features.columns, {filled}));
    arrays.push_back(view("attr_indptr", features.offsets, {features.rows + 1}));
    arrays.push_back(as_array("attr_shape", Shape{features.rows, features.cols}, {2}));
  } else {
    arrays.push_back(view("x", features.dense, {features.rows, features.cols}));
  }
  arrays.push_back(targets(dataset.labels, graph.nodes));
  if (!dataset.splits.empty()) {
    for (const auto& [name, role] : {std::pair{"train_mask", Role::train},
                                     {"val_mask", Role::validation},
                                     {"test_mask", Role::test}}) {
      arrays.push_back(mask(name, dataset.splits, graph.nodes, role));
    }
  }
  if (!dataset.class_names.empty()) {
    arrays.push_back(class_names(dataset.class_names));
  } else if (lacks_last_class(dataset.labels)) {
    std::vector<std::string> numbers;  // Their count says how many classes there are.
    for (int id = 0; id < dataset.labels.classes; ++id) numbers.push_back(std::to_string(id));
    arrays.push_back(class_names(numbers));
  }
  write_npz(file, arrays);
}

}  // namespace heliograph
