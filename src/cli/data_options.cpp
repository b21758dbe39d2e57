#include "cli/data_options.hpp"

#include <fmt/format.h>

#include "cli/progress.hpp"
#include "cli/text.hpp"
#include "heliograph/error.hpp"

namespace heliograph::cli {
namespace {

const EnumNames<InputFormat>& format_names() {
  static const EnumNames<InputFormat> names{{"auto", InputFormat::automatic},
                                            {"native", InputFormat::native},
                                            {"npz", InputFormat::npz},
                                            {"facebook", InputFormat::facebook},
                                            {"edge-list", InputFormat::edge_list},
                                            {"matrix-market", InputFormat::matrix_market}};
  return names;
}

const EnumNames<LogLevel>& level_names() {
  static const EnumNames<LogLevel> names{{"debug", LogLevel::debug},
                                         {"info", LogLevel::info},
                                         {"warning", LogLevel::warning},
                                         {"error", LogLevel::error}};
  return names;
}

}  // namespace

std::vector<OptionField<DataOptions>> input_fields() {
  const std::string group = "Data";
  std::vector<OptionField<DataOptions>> fields;
  fields.push_back(make_optional_text<DataOptions>(
      "data", group, "PATH",
      "The data set: a native graph directory, or anything that import reads. Required.",
      [](auto& o) -> auto& { return o.data; }));
  fields.push_back(make_choice<DataOptions>(
      "format", group, "What lies at --data.", format_names(),
      [](auto& o) -> auto& { return o.format; }));
  OptionField<DataOptions> base{"index-base",
                                group,
                                FieldKind::integer,
                                "0|1",
                                "Number of the first node in an edge list that does not state it.",
                                {},
                                {}};
  base.set = [](DataOptions& options, const std::string& text) {
    options.index_base = static_cast<int>(parse_integer("index-base", text, 0, 1));
  };
  base.get = [](const DataOptions& options) {
    return options.index_base < 0 ? nlohmann::json() : nlohmann::json(options.index_base);
  };
  fields.push_back(std::move(base));
  fields.push_back(make_field<DataOptions>(
      "keep-direction", group, "", "Keep edges one-way; without it each edge counts both ways.",
      [](auto& o) -> auto& { return o.keep_direction; }));
  return fields;
}

std::vector<OptionField<DataOptions>> message_fields() {
  const std::string group = "Messages";
  std::vector<OptionField<DataOptions>> fields;
  fields.push_back(make_field<DataOptions>(
      "quiet", group, "", "Print nothing but errors.", [](auto& o) -> auto& { return o.quiet; }));
  fields.push_back(make_choice<DataOptions>(
      "log-level", group, "The least of what is printed.", level_names(),
      [](auto& o) -> auto& { return o.log_level; }));
  return fields;
}

Dataset load(const DataOptions& options, Progress& progress, ImportCounts* counts) {
  require_text(options.data, "data", "the path of a data set");
  progress.phase("loading " + options.data);
  ImportOptions reading;
  reading.format = options.format;
  reading.index_base = options.index_base;
  reading.keep_direction = options.keep_direction;
  reading.log = [&progress](LogLevel level, std::string_view text) { progress.log(level, text); };
  return load_dataset(options.data, reading, counts);
}

std::string describe(const Dataset& dataset) {
  return fmt::format(
      "{}: {} nodes, {} {}, {} {} features, {} {}", dataset.name, with_commas(dataset.graph.nodes),
      with_commas(dataset.graph.directed ? dataset.graph.entries() : dataset.graph.entries() / 2),
      dataset.graph.directed ? "directed edges" : "edges", with_commas(dataset.features.cols),
      dataset.features.sparse ? "sparse" : "dense", with_commas(dataset.labels.classes),
      dataset.labels.task == Task::multilabel ? "labels (multi-label)" : "classes");
}

void require_text(const std::string& text, const char* flag, const char* what) {
  if (text.empty()) {
    throw Error(ErrorCode::usage, fmt::format("--{} is required: {}", flag, what));
  }
}

}  // namespace heliograph::cli
