#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/plural.hpp"
#include "core/throw_error.hpp"
#include "graph/io/mat_file.hpp"
#include "graph/io/parts.hpp"
#include "graph/io/published.hpp"
#include "graph/io/readers.hpp"
#include "graph/refuse.hpp"

namespace heliograph {
namespace fs = std::filesystem;

namespace {

/// The columns of local_info.
const std::vector<std::string> kColumns = {"student_fac", "gender", "major",      "second_major",
                                           "dorm",        "year",   "high_school"};

std::size_t target_column(const std::string& target) {
  const auto found = std::ranges::find(kColumns, target.empty() ? "gender" : target);
  if (found == kColumns.end()) {
    throw_error(ErrorCode::usage, "--target {}: Facebook100 has the targets {}", target,
                listed(kColumns, "and"));
  }
  return static_cast<std::size_t>(found - kColumns.begin());
}

/// One column of local_info: a category for each node.
struct Categories {
  std::vector<std::int64_t> values;   ///< The distinct values but 0, which is missing, ascending.
  std::vector<std::int64_t> of_node;  ///< The index of each node's value; -1 if it is missing.
};

Categories categories_of(std::span<const std::int64_t> info, std::size_t column) {
  Categories out;
  for (std::size_t i = column; i < info.size(); i += kColumns.size()) {
    if (info[i] != 0) out.values.push_back(info[i]);
  }
  std::ranges::sort(out.values);
  out.values.erase(std::unique(out.values.begin(), out.values.end()), out.values.end());
  for (std::size_t i = column; i < info.size(); i += kColumns.size()) {
    const auto at = std::ranges::lower_bound(out.values, info[i]) - out.values.begin();
    out.of_node.push_back(info[i] == 0 ? -1 : at);
  }
  return out;
}

Features one_hot(const std::vector<Categories>& blocks, std::int64_t nodes,
                 const std::string& where) {
  std::vector<std::int64_t> offsets = {0};
  std::vector<std::int32_t> columns;
  std::int64_t cols = 0;
  for (std::int64_t v = 0; v < nodes; ++v) {
    cols = 0;
    for (const Categories& block : blocks) {
      const std::int64_t at = block.of_node[static_cast<std::size_t>(v)];
      if (at >= 0) columns.push_back(static_cast<std::int32_t>(cols + at));
      cols += std::ssize(block.values);
    }
    offsets.push_back(std::ssize(columns));
  }
  std::vector<float> ones(columns.size(), 1.0F);
  return sparse_features(cols, std::move(offsets), std::move(columns), std::move(ones), where);
}

}  // namespace

bool is_facebook100(const fs::path& path) {
  return !fs::is_directory(path) && path.extension() == ".mat";
}

Dataset read_facebook100(const fs::path& file, const ImportOptions& options, ImportCounts& counts) {
  const std::size_t target = target_column(options.target);
  const CsrMembers matrix = read_mat_sparse(file, "A");
  const std::int64_t nodes = matrix.rows;
  if (matrix.cols != nodes) refuse(file, "variable A is {} x {}, not square", matrix.cols, nodes);
  const NpyArray info = read_mat_matrix(file, "local_info");
  if (info.shape[0] != nodes || info.shape[1] != std::ssize(kColumns)) {
    refuse(info.name, "has shape {}, but {} and {} are needed", info.shape_text(),
           counted(nodes, "row"), counted(std::ssize(kColumns), "column"));
  }
  const std::vector<std::int64_t> values = to_int64(info);
  Dataset dataset;
  std::vector<Categories> blocks;
  for (std::size_t column = 0; column < kColumns.size(); ++column) {
    Categories categories = categories_of(values, column);
    if (column != target) {
      blocks.push_back(std::move(categories));
      continue;
    }
    const std::string name = fmt::format("{}: column {}", info.name, kColumns[column]);
    for (const std::int64_t value : categories.values) {
      dataset.class_names.push_back(std::to_string(value));
    }
    dataset.labels =
        make_labels(as_array(name, std::move(categories.of_node), {nodes}), nodes, false);
  }
  dataset.features = one_hot(blocks, nodes, info.name);
  dataset.graph = build_graph(
      nodes, options.keep_direction, counts,
      [&](auto&& use) {
        matrix.for_each([&](NodeId column, NodeId row, std::size_t) { use(row, column); });
      },
      file.string());
  compare_with_published(InputFormat::facebook100, counts, options);
  return dataset;
}

}  // namespace heliograph
