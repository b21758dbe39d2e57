#include "graph/io/scipy_graph.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "graph/canonical.hpp"
#include "graph/io/csr_members.hpp"
#include "graph/io/text.hpp"
#include "graph/refuse.hpp"

namespace heliograph {
namespace {

/// The scalar member "format", such as "csr", whose dtype is '|S3' or '<U3'.
std::string format_of(const NpzArchive& archive) {
  const NpyArray array = archive.read("format");
  std::string text;
  for (const std::byte b : array.data) {
    if (b != std::byte{0}) text += static_cast<char>(b);
  }
  return text;
}

std::vector<std::int32_t> read_nodes(const NpyArray& array, std::int64_t nodes) {
  std::vector<std::int32_t> values = to_int32(array);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= 0 && values[i] < nodes) continue;
    refuse(array.name, "entry {} is node {}, which is not in [0, {})", i, values[i], nodes);
  }
  return values;
}

Graph graph_of_coo(const NpzArchive& archive, std::int64_t nodes, const ImportOptions& options,
                   ImportCounts& counts) {
  const std::vector<std::int32_t> sources = read_nodes(archive.read("row"), nodes);
  const std::vector<std::int32_t> targets = read_nodes(archive.read("col"), nodes);
  if (sources.size() != targets.size()) {
    refuse(archive.where(), "row holds {} entries and col {}", sources.size(), targets.size());
  }
  return build_graph(
      nodes, options.keep_direction, counts,
      [&](auto&& use) {
        for (std::size_t i = 0; i < sources.size(); ++i) use(sources[i], targets[i]);
      },
      archive.where());
}

}  // namespace

RowCount rows_of_scipy_graph(const NpzArchive& archive) {
  const NpyArray array = archive.read("shape");
  const std::vector<std::int64_t> shape = to_int64(array);
  if (shape.size() != 2 || shape[0] != shape[1]) {
    refuse(array.name, "is {}, which is not square", fmt::format("{}", fmt::join(shape, " x ")));
  }
  return {archive.where(), shape[0]};
}

Graph read_scipy_graph(const NpzArchive& archive, std::int64_t nodes, const ImportOptions& options,
                       ImportCounts& counts) {
  const std::string format = format_of(archive);
  if (format == "coo") return graph_of_coo(archive, nodes, options, counts);
  if (format != "csr")
    refuse(archive.where(), "format '{}' is neither csr nor coo", legible(format));
  const CsrMembers matrix = read_csr_members(archive, "");
  return build_graph(
      nodes, options.keep_direction, counts,
      [&](auto&& use) {
        matrix.for_each([&](NodeId row, NodeId column, std::size_t) { use(row, column); });
      },
      archive.where());
}

}  // namespace heliograph
