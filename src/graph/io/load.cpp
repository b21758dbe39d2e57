#include <fmt/format.h>

#include "core/throw_error.hpp"
#include "graph/doubts.hpp"
#include "graph/io/readers.hpp"
#include "graph/validate.hpp"
#include "heliograph/io.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

constexpr const char* kForms =
    "a native directory (manifest.json), a .npz archive, a directory with edges.csv, "
    "features.json and target.csv, a directory with edges.csv or edges.tsv and features.npy, or "
    "a .mtx file or a directory with one";

bool holds_matrix_market(const fs::path& directory) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".mtx" && entry.path().filename() != "features.mtx") {
      return true;
    }
  }
  return false;
}

InputFormat detect(const fs::path& path) {
  if (!fs::is_directory(path)) {
    const std::string extension = path.extension().string();
    if (extension == ".npz") return InputFormat::npz;
    if (extension == ".mtx") return InputFormat::matrix_market;
    if (extension == ".csv" || extension == ".tsv") return InputFormat::edge_list;
    throw_error(ErrorCode::bad_input, "{} has an unknown format; the known ones are {}",
                path.string(), kForms);
  }
  if (fs::exists(path / "run.json") || fs::exists(path / "weights.safetensors")) {
    throw_error(ErrorCode::bad_input,
                "{} is a run or a checkpoint, not a data set: train --resume continues it, eval "
                "--checkpoint scores it, and train --config RUN takes its options and its data",
                path.string());
  }
  if (is_native(path)) return InputFormat::native;
  const bool edges = fs::exists(path / "edges.csv");
  if (edges && (fs::exists(path / "features.json") || fs::exists(path / "target.csv"))) {
    return InputFormat::facebook;
  }
  if (edges || fs::exists(path / "edges.tsv")) return InputFormat::edge_list;
  if (holds_matrix_market(path)) return InputFormat::matrix_market;
  throw_error(ErrorCode::bad_input, "{} holds no known format; the known ones are {}",
              path.string(), kForms);
}

/// Fills in the counts that follow from a native directory's graph.
void count_native(const Graph& graph, ImportCounts& counts) {
  counts.nodes = graph.nodes;
  counts.entries = graph.entries();
  counts.edges_listed = graph.directed ? counts.entries : counts.entries / 2;
  counts.isolated = count_isolated(graph);
}

Dataset read_format(const fs::path& path, InputFormat format, const ImportOptions& options,
                    ImportCounts& counts) {
  switch (format) {
    case InputFormat::npz:
      return read_npz_dataset(path, options, counts);
    case InputFormat::facebook:
      return read_facebook(path, options, counts);
    case InputFormat::edge_list:
      return read_edge_list(path, options, counts);
    case InputFormat::matrix_market:
      return read_matrix_market(path, options, counts);
    default:
      return load_native(path);
  }
}

/// The last component of the path; for a file, without its extension.
std::string name_of(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  const fs::path last = whole.has_filename() ? whole : whole.parent_path();
  return (fs::is_directory(path) ? last.filename() : last.stem()).string();
}

}  // namespace

Dataset load_dataset(const fs::path& path, const ImportOptions& options, ImportCounts* counts) {
  ImportCounts own;
  ImportCounts& filled = counts != nullptr ? *counts : own;
  filled = {};
  InputFormat format = options.format;
  Dataset dataset;
  try {
    if (!fs::exists(path)) throw_error(ErrorCode::bad_input, "{} does not exist", path.string());
    if (format == InputFormat::automatic) format = detect(path);
    dataset = read_format(path, format, options, filled);
  } catch (const fs::filesystem_error& error) {  // For example a directory without permission.
    throw_error(ErrorCode::bad_input, "cannot read {}: {}", error.path1().string(),
                error.code().message());
  }
  if (options.regression && dataset.labels.task != Task::regression &&
      any_labelled(dataset.labels)) {
    throw_error(ErrorCode::usage, "--regression: the labels of {} are classes", path.string());
  }
  if (dataset.name.empty()) dataset.name = name_of(path);
  validate_dataset(dataset, path.string(), options.requires_labels);
  if (format == InputFormat::native) {
    // A file with a correct checksum may hold wrong values, on which counting relies.
    if (!dataset.graph.directed) validate_symmetry(dataset.graph, path.string());
    count_native(dataset.graph, filled);
  }
  for (NodeId v = 0; v < dataset.graph.nodes; ++v) {
    if (!dataset.labels.has_label(v)) ++filled.unlabelled;
  }
  warn_of_doubts(dataset, options.log);
  if (options.log) {
    options.log(LogLevel::info,
                fmt::format("{}: {} nodes, {} edges listed, {} self-loops and {} duplicates "
                            "dropped, {} entries kept, {} isolated nodes, {} unlabelled, {} "
                            "weights ignored",
                            path.string(), filled.nodes, filled.edges_listed, filled.self_loops,
                            filled.duplicates, filled.entries, filled.isolated, filled.unlabelled,
                            filled.weights_ignored));
  }
  return dataset;
}

}  // namespace heliograph
