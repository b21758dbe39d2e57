#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/throw_error.hpp"
#include "graph/edge_weights.hpp"
#include "graph/io/line_reader.hpp"
#include "graph/io/readers.hpp"
#include "graph/io/text.hpp"

namespace heliograph {
namespace fs = std::filesystem;

namespace {

/// A .graph file: a line "vertices edges [format [weights]]", then a line for each vertex, whose
/// neighbours are numbered from 1. Lines that start with % are comments.
class MetisFile {
 public:
  explicit MetisFile(const fs::path& file) : file_(file) {
    LineReader lines(file_);
    std::string_view line;
    if (!next_line(lines, line)) lines.refuse("is empty");
    nodes_ = size(lines, take_word(line));
    edges_ = size(lines, take_word(line));
    if (nodes_ > std::numeric_limits<NodeId>::max()) {
      throw_error(ErrorCode::resource, "{}: {} nodes: a graph must have fewer than 2^31 nodes",
                  lines.where(), nodes_);
    }
    const std::string_view flags = take_word(line);
    if (flags.size() > 3 || flags.find_first_not_of("01") != std::string_view::npos) {
      lines.refuse("the format '{}' is not up to three digits 0 or 1", flags);
    }
    const auto flag = [&](std::size_t from_last) {
      return flags.size() >= from_last && flags[flags.size() - from_last] == '1';
    };
    weighted_ = flag(1);
    const std::string_view constraints = take_word(line);
    if (!constraints.empty() && !flag(2)) {
      lines.refuse("has {} weights a vertex, but the format '{}' none", constraints, flags);
    }
    vertex_values_ = flag(3) ? 1 : 0;
    if (flag(2)) vertex_values_ += constraints.empty() ? 1 : size(lines, constraints);
    if (!trim(line).empty()) lines.refuse("'{}' is one field too many", trim(line));
  }

  std::int64_t nodes() const { return nodes_; }
  std::int64_t edges() const { return edges_; }
  bool weighs_vertices() const { return vertex_values_ > 0; }

  /// Calls use(vertex, neighbour, weight, lines) for every listed neighbour; both count from 0.
  template <class Use>
  void for_each(const Use& use) const {
    LineReader lines(file_);
    std::string_view line;
    next_line(lines, line);
    for (std::int64_t v = 0; v < nodes_; ++v) {
      if (!next_line(lines, line)) {
        lines.refuse("ends after {} of {} vertices: the file is truncated", v, nodes_);
      }
      for (std::int64_t i = 0; i < vertex_values_; ++i) number(lines, take_word(line));
      for (auto word = take_word(line); !word.empty(); word = take_word(line)) {
        const auto neighbour = parse_number<std::int64_t>(word);
        if (!neighbour || *neighbour < 1 || *neighbour > nodes_) {
          lines.refuse("neighbour '{}' is not in [1, {}]", word, nodes_);
        }
        if (*neighbour == v + 1) {
          lines.refuse("vertex {} lists itself; METIS counts vertices from 1", v + 1);
        }
        const double weight = weighted_ ? number(lines, take_word(line)) : 1.0;
        use(static_cast<NodeId>(v), static_cast<NodeId>(*neighbour - 1), weight, lines);
      }
    }
    while (next_line(lines, line)) {
      if (!trim(line).empty()) lines.refuse("more than the {} vertices announced", nodes_);
    }
  }

  /// Throws Error(bad_input) that names the line of an edge.
  template <class... Args>
  [[noreturn]] void refuse_edge(NodeId vertex, NodeId neighbour,
                                fmt::format_string<const Args&...> sentence,
                                const Args&... args) const {
    for_each([&](NodeId v, NodeId u, double, const LineReader& lines) {
      if (v == vertex && u == neighbour) lines.refuse(sentence, args...);
    });
    throw_error(ErrorCode::bad_input, "{} changed while it was read", file_.string());
  }

 private:
  static bool next_line(LineReader& lines, std::string_view& line) {
    while (lines.next(line)) {
      if (!line.starts_with('%')) return true;
    }
    return false;
  }

  static std::int64_t size(const LineReader& lines, std::string_view word) {
    const auto value = parse_number<std::int64_t>(word);
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 2;
    if (!value || *value < 0 || *value > kMost) lines.refuse("'{}' is not a size", word);
    return *value;
  }

  static double number(const LineReader& lines, std::string_view word) {
    const auto value = parse_number<double>(word);
    if (!value) lines.refuse("'{}' is not a weight", word);
    return *value;
  }

  const fs::path& file_;
  std::int64_t nodes_ = 0, edges_ = 0, vertex_values_ = 0;
  bool weighted_ = false;
};

/// Throws Error(bad_input) unless each edge of a directed graph, whose rows hold in-neighbours, is
/// there in both directions with one weight.
void require_both_ends(const MetisFile& file, const Graph& graph) {
  const auto weight = [&](std::int64_t i) {
    return graph.edge_weights.empty() ? 1.0F : graph.edge_weights[static_cast<std::size_t>(i)];
  };
  // Rows ascend, so when v is visited, the next unmatched entry of each neighbour's row must be v.
  std::vector<std::int64_t> next(graph.offsets.begin(), graph.offsets.end());
  for (NodeId v = 0; v < graph.nodes; ++v) {
    const auto row = static_cast<std::size_t>(v);
    for (std::int64_t e = graph.offsets[row]; e < graph.offsets[row + 1]; ++e) {
      const NodeId u = graph.neighbours[static_cast<std::size_t>(e)];
      const std::int64_t i = next[static_cast<std::size_t>(u)]++;
      const bool more = i < graph.offsets[static_cast<std::size_t>(u) + 1];
      const NodeId other = more ? graph.neighbours[static_cast<std::size_t>(i)] : v;
      if (more && other == v) {
        if (weight(e) == weight(i)) continue;
        file.refuse_edge(u, v, "the edge {} - {} has the weight {} here and {} in the line of {}",
                         u + 1, v + 1, weight(e), weight(i), v + 1);
      }
      // u is in the row of v, so the line of u lists v. An entry of u's row before v was not
      // matched, so its line lists u and not the reverse.
      const NodeId from = other < v ? other : u, to = other < v ? u : v;
      file.refuse_edge(from, to, "vertex {} lists {}, which does not list {}", from + 1, to + 1,
                       from + 1);
    }
  }
}

}  // namespace

bool is_metis(const fs::path& path) { return has_graph_file(path, "graph"); }

Dataset read_metis(const fs::path& path, const ImportOptions& options, ImportCounts& counts) {
  const fs::path file = graph_file_of(path, "graph");
  const MetisFile metis(file);
  check_claimed_nodes(file, metis.nodes(), options);
  Dataset dataset;
  dataset.graph = build_graph(
      metis.nodes(), true, counts,
      [&](auto&& use) {
        metis.for_each([&](NodeId v, NodeId u, double weight, const LineReader& lines) {
          if (options.ignore_weights) weight = 1;
          if (!is_edge_weight(weight)) {
            lines.refuse("the weight {} is neither 0 nor a normal fp32 number", weight);
          }
          use(v, u, static_cast<float>(weight));
        });
      },
      file.string());
  require_both_ends(metis, dataset.graph);
  dataset.graph.directed = false;
  // Each edge was listed, and each duplicate dropped, at both ends.
  if (counts.edges_listed % 2 != 0 || counts.edges_listed / 2 != metis.edges()) {
    throw_error(ErrorCode::bad_input, "{}: has {} neighbours, but its header says {} edges",
                file.string(), counts.edges_listed, metis.edges());
  }
  counts.edges_listed /= 2;
  counts.duplicates /= 2;
  read_sides(file, options, dataset);
  if (metis.weighs_vertices() && options.log) {
    options.log(LogLevel::info,
                fmt::format("{}: weights and sizes of vertices are not used", file.string()));
  }
  return dataset;
}

}  // namespace heliograph
