#include "graph/io/scipy_graph.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "graph/canonical.hpp"
#include "graph/io/csr_members.hpp"
#include "graph/io/edge_arrays.hpp"
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
  if (format == "coo") {
    const EdgeArrays edges(archive.where() + ": members row and col", archive.read("row"),
                           archive.read("col"));
    return edges.graph(nodes, {}, {}, options, counts, archive.where());
  }
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
