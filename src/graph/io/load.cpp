#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/plural.hpp"
#include "core/throw_error.hpp"
#include "graph/doubts.hpp"
#include "graph/edge_weights.hpp"
#include "graph/io/forms.hpp"
#include "graph/io/readers.hpp"
#include "graph/validate.hpp"
#include "heliograph/io.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

/// The files of all forms, for messages.
std::string known_forms() {
  std::string text;
  for (const InputForm& form : input_forms()) {
    const bool last = &form == &input_forms().back();
    text += text.empty() ? "" : last ? ", or " : ", ";
    text += form.text != nullptr ? form.text : "a directory with " + listed(form.files, "and");
  }
  return text;
}

bool holds_run(const fs::path& directory) {
  return fs::exists(directory / "run.json") || fs::exists(directory / "weights.safetensors");
}

/// Throws Error(bad_input) if a file belongs to a data set that is its whole directory. `form`: of
/// the file by itself.
void refuse_part(const fs::path& file, const InputForm* form) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (holds_run(folder)) return;
  for (const InputForm& whole : input_forms()) {
    if (whole.files.empty() || !whole.recognises(folder)) continue;
    const bool named =
        std::ranges::find(whole.files, file.filename().string()) != whole.files.end();
    const bool of_native = whole.format == InputFormat::native &&
                           (form == nullptr || form->format == InputFormat::edge_list);
    if (!named && !of_native) continue;
    throw_error(ErrorCode::bad_input, "{} is a file of the data set in {}: give the directory",
                file.string(), folder.string());
  }
}

InputFormat detect(const fs::path& path) {
  if (!fs::exists(path)) throw_error(ErrorCode::bad_input, "{} does not exist", path.string());
  if (fs::is_directory(path) && holds_run(path)) {
    throw_error(ErrorCode::bad_input,
                "{} is a run or a checkpoint, not a data set: train --resume continues it, eval "
                "--checkpoint scores it, and train --config RUN takes its options and its data",
                path.string());
  }
  const InputForm* const form = form_of(path);
  if (!fs::is_directory(path)) refuse_part(path, form);
  if (form != nullptr) return form->format;
  throw_error(
      ErrorCode::bad_input,
      "{} {}; the known ones are {}. Of files of PyTorch Geometric (.pt), DGL (.bin), Parquet "
      "and Planetoid (ind.*), experiments/datasets/convert.py makes a .npz (docs/data.md)",
      path.string(), fs::is_directory(path) ? "holds no known format" : "has an unknown format",
      known_forms());
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
  const auto form = std::ranges::find(input_forms(), format, &InputForm::format);
  if (!options.target.empty() && !form->has_targets) {
    throw_error(ErrorCode::usage,
                "--target {} does not apply: {} has no targets to choose from; leave it out",
                options.target, path.string());
  }
  return form->read(path, options, counts);
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

bool has_targets(InputFormat format) {
  return std::ranges::any_of(input_forms(), [format](const InputForm& form) {
    return form.format == format && form.has_targets;
  });
}

bool holds_data(const fs::path& directory) {
  try {
    return form_of(directory) != nullptr;
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
  count_weights(dataset.graph, filled);
  for (NodeId v = 0; v < dataset.graph.nodes; ++v) {
    if (!dataset.labels.has_label(v)) ++filled.unlabelled;
  }
  warn_of_doubts(dataset, options.requires_labels, options.log);
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
