#include <fmt/format.h>

#include "core/plural.hpp"
#include "core/throw_error.hpp"
#include "graph/doubts.hpp"
#include "graph/edge_weights.hpp"
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

bool holds_edge_list(const fs::path& directory) {
  return fs::exists(directory / "edges.csv") || fs::exists(directory / "edges.tsv");
}

bool holds_facebook(const fs::path& directory) {
  return fs::exists(directory / "edges.csv") &&
         (fs::exists(directory / "features.json") || fs::exists(directory / "target.csv"));
}

/// Whether `file` is one of those that make up the data set of `directory`.
bool is_of_facebook(const fs::path& directory, const fs::path& file) {
  return holds_facebook(directory) &&
         (file == "edges.csv" || file == "features.json" || file == "target.csv");
}

bool holds_run(const fs::path& directory) {
  return fs::exists(directory / "run.json") || fs::exists(directory / "weights.safetensors");
}

InputFormat detect(const fs::path& path) {
  if (!fs::exists(path)) throw_error(ErrorCode::bad_input, "{} does not exist", path.string());
  if (!fs::is_directory(path)) {
    const std::string extension = path.extension().string();
    if (extension == ".npz") return InputFormat::npz;
    if (extension == ".mtx") return InputFormat::matrix_market;
    const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    if ((is_native(folder) && !holds_run(folder)) || is_of_facebook(folder, path.filename())) {
      throw_error(ErrorCode::bad_input, "{} is a file of the data set in {}: give the directory",
                  path.string(), folder.string());
    }
    if (extension == ".csv" || extension == ".tsv") return InputFormat::edge_list;
    throw_error(ErrorCode::bad_input, "{} has an unknown format; the known ones are {}",
                path.string(), kForms);
  }
  if (holds_run(path)) {
    throw_error(ErrorCode::bad_input,
                "{} is a run or a checkpoint, not a data set: train --resume continues it, eval "
                "--checkpoint scores it, and train --config RUN takes its options and its data",
                path.string());
  }
  if (is_native(path)) return InputFormat::native;
  if (holds_facebook(path)) return InputFormat::facebook;
  if (holds_edge_list(path)) return InputFormat::edge_list;
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

/// Returns what `read` returns. Turns errors of the file system, for example a directory without
/// permission, into Error(bad_input).
template <class Read>
auto refusing_unreadable(const Read& read) {
  try {
    return read();
  } catch (const fs::filesystem_error& error) {
    throw_error(ErrorCode::bad_input, "cannot read {}: {}", error.path1().string(),
                error.code().message());
  }
}

}  // namespace

InputFormat detect_format(const fs::path& path) {
  return refusing_unreadable([&] { return detect(path); });
}

bool holds_data(const fs::path& directory) {
  try {
    return is_native(directory) || holds_edge_list(directory) || holds_matrix_market(directory);
  } catch (const fs::filesystem_error&) {
    return false;
  }
}

Dataset load_dataset(const fs::path& path, const ImportOptions& options, ImportCounts* counts) {
  ImportCounts own;
  ImportCounts& filled = counts != nullptr ? *counts : own;
  filled = {};
  const InputFormat format =
      options.format == InputFormat::automatic ? detect_format(path) : options.format;
  Dataset dataset = refusing_unreadable([&] {
    if (!fs::exists(path)) throw_error(ErrorCode::bad_input, "{} does not exist", path.string());
    return read_format(path, format, options, filled);
  });
  if (options.ignore_weights) dataset.graph.edge_weights = {};
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
  if (const auto weights = weight_range(dataset.graph)) {
    filled.least_weight = weights->least;
    filled.most_weight = weights->most;
  }
  for (NodeId v = 0; v < dataset.graph.nodes; ++v) {
    if (!dataset.labels.has_label(v)) ++filled.unlabelled;
  }
  warn_of_doubts(dataset, options.log);
  if (options.log) {
    options.log(
        LogLevel::info,
        fmt::format("{}: {}, {} listed, {} and {} dropped, {} kept, {}, {} unlabelled",
                    path.string(), counted(filled.nodes, "node"),
                    counted(filled.edges_listed, "edge"), counted(filled.self_loops, "self-loop"),
                    counted(filled.duplicates, "duplicate"), counted(filled.entries, "entry"),
                    counted(filled.isolated, "isolated node"), filled.unlabelled));
  }
  return dataset;
}

}  // namespace heliograph
