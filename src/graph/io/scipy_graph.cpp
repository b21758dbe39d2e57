#include "graph/io/scipy_graph.hpp"

#include <string>
#include <vector>

#include "graph/canonical.hpp"
#include "graph/io/csr_members.hpp"
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

void require_square(const NpzArchive& archive, std::int64_t rows, std::int64_t cols) {
  if (rows != cols) refuse(archive.where(), "the matrix is {} x {}, not square", rows, cols);
  if (rows == 0) refuse(archive.where(), "the graph has no nodes");
}

Graph graph_of_coo(const NpzArchive& archive, const ImportOptions& options, ImportCounts& counts) {
  const std::vector<std::int64_t> shape = to_int64(archive.read("shape"));
  if (shape.size() != 2) refuse(archive.where(), "member shape is not the shape of a matrix");
  require_square(archive, shape[0], shape[1]);
  const NpyArray row = archive.read("row"), col = archive.read("col");
  const std::vector<std::int32_t> sources = to_int32(row), targets = to_int32(col);
  if (sources.size() != targets.size()) {
    refuse(archive.where(), "row holds {} entries and col {}", sources.size(), targets.size());
  }
  for (std::size_t i = 0; i < sources.size(); ++i) {
    check_edge(static_cast<std::int64_t>(i), sources[i], targets[i], shape[0]);
  }
  return build_graph(
      shape[0], options.keep_direction, counts,
      [&](auto&& use) {
        for (std::size_t i = 0; i < sources.size(); ++i) use(sources[i], targets[i]);
      },
      archive.where());
}

}  // namespace

Graph read_scipy_graph(const std::filesystem::path& file, const ImportOptions& options,
                       ImportCounts& counts) {
  const NpzArchive archive(file);
  const std::string format = format_of(archive);
  if (format == "coo") return graph_of_coo(archive, options, counts);
  if (format != "csr") refuse(archive.where(), "format '{}' is neither csr nor coo", format);
  const CsrMembers matrix = read_csr_members(archive, "");
  require_square(archive, matrix.rows, matrix.cols);
  return build_graph(
      matrix.rows, options.keep_direction, counts,
      [&](auto&& use) {
        matrix.for_each([&](NodeId row, NodeId column, std::size_t) { use(row, column); });
      },
      archive.where());
}

}  // namespace heliograph
