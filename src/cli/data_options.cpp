#include "cli/data_options.hpp"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

#include "cli/progress.hpp"
#include "cli/text.hpp"
#include "heliograph/error.hpp"
#include "heliograph/io.hpp"
#include "heliograph/shards.hpp"
#include "train/options/values.hpp"

namespace heliograph::cli {
namespace {

/// Whether --index-base says from which number nodes of this format count.
bool has_base(InputFormat format) {
  return format == InputFormat::edge_list || format == InputFormat::npz;
}

}  // namespace

std::vector<OptionField<DataOptions>> input_fields(const char* data) {
  FieldTable<DataOptions> fields;
  fields.group("Data");
  fields.add("data", "PATH", data, HELIOGRAPH_MEMBER(data));
  fields.add("format", "Format of --data. auto recognises it.", HELIOGRAPH_MEMBER(format));
  fields.add(
      "index-base", FieldKind::integer, "0|1",
      "Whether nodes are numbered from 0 or from 1 in the list of edges. A file edges.csv or "
      "edges.tsv needs it; edges of a .npz archive count from 0 without it.",
      [](DataOptions& options, const std::string& text) {
        options.index_base = static_cast<int>(parse_integer("index-base", text, 0, 1));
      },
      [](const DataOptions& options) {
        return options.index_base < 0 ? nlohmann::json() : nlohmann::json(options.index_base);
      });
  fields.add("keep-direction",
             "Keep edges directed. By default each edge counts in both directions.",
             HELIOGRAPH_MEMBER(keep_direction));
  fields.add("ignore-weights",
             "Give every edge the weight 1. By default the weights of the data count.",
             HELIOGRAPH_MEMBER(ignore_weights));
  fields.add("regression",
             "Labels are numbers to predict, one a node; NaN is unlabelled. By default they are "
             "classes.",
             HELIOGRAPH_MEMBER(regression));
  fields.add("target", "NAME",
             "What to predict, where the data have several targets (docs/formats.md). By default "
             "the one that is published as such.",
             HELIOGRAPH_MEMBER(target));
  return fields.take();
}

std::vector<OptionField<DataOptions>> message_fields() {
  FieldTable<DataOptions> fields;
  fields.group("Messages");
  fields.add("quiet", "Print nothing but errors.", HELIOGRAPH_MEMBER(quiet));
  fields.add("log-level", "Least severe messages to print.", HELIOGRAPH_MEMBER(log_level));
  return fields.take();
}

DataOptions take_reading(DataOptions& of_run) {
  DataOptions reading;
  std::swap(reading.data, of_run.data);
  std::swap(reading.format, of_run.format);
  std::swap(reading.index_base, of_run.index_base);
  std::swap(reading.target, of_run.target);
  return reading;
}

void give_reading(const DataOptions& of_run, DataOptions& input) {
  if (input.data.empty()) {
    input.data = of_run.data;
    if (input.format == InputFormat::automatic) input.format = of_run.format;
  }
  const auto format_of = [](const DataOptions& options) -> std::optional<InputFormat> {
    if (options.format != InputFormat::automatic) return options.format;
    if (is_shards(options.data)) return std::nullopt;  // Earlier versions did not note it.
    try {
      return detect_format(options.data);
    } catch (const Error&) {  // It is gone, or of an unknown format.
      return std::nullopt;
    }
  };
  const std::optional<InputFormat> format = format_of(input), old = format_of(of_run);
  if (format && old && *format != *old) return;
  if (!format) input.format = of_run.format;
  if (input.target.empty() && (!format || has_targets(*format))) input.target = of_run.target;
  if (input.index_base < 0 && (!format || has_base(*format))) input.index_base = of_run.index_base;
}

void refuse_flags_of_edge_lists(const DataOptions& options, const GivenOption& flag) {
  for (const char* name : {"index-base", "keep-direction"}) {
    if (!flag(name)) continue;
    const InputFormat format =
        options.format == InputFormat::automatic ? detect_format(options.data) : options.format;
    if (format == InputFormat::native) {
      throw Error(ErrorCode::usage,
                  fmt::format("--{} does not apply: {} is a native graph, whose "
                              "edges are read already; leave it out, or give it to import",
                              name, options.data));
    }
    if (!has_base(format) && std::string_view(name) == "index-base") {
      throw Error(ErrorCode::usage, fmt::format("--{} does not apply: the format of {}, {}, says "
                                                "from which number nodes count; leave it out",
                                                name, options.data, choice_name(format)));
    }
  }
}

void refuse_shards(const DataOptions& options) {
  if (!is_shards(options.data)) return;
  throw Error(ErrorCode::usage,
              fmt::format("{} holds shards, which are cut already: give --data the data set from "
                          "which they were made",
                          options.data));
}

Dataset load(const DataOptions& options, Progress& progress, ImportCounts* counts) {
  require_text(options.data, "data", "the path of a data set");
  progress.phase("loading " + options.data);
  ImportOptions reading;
  reading.format = options.format;
  reading.index_base = options.index_base;
  reading.keep_direction = options.keep_direction;
  reading.ignore_weights = options.ignore_weights;
  reading.requires_labels = options.requires_labels;
  reading.requires_splits = options.requires_splits;
  reading.regression = options.regression;
  reading.target = options.target;
  reading.log = progress.callback();
  Dataset dataset = load_dataset(options.data, reading, counts);
  // A config may have options that are refused as flags.
  const auto warn = [&](const char* flag, const char* what) {
    progress.callback()(LogLevel::warning,
                        fmt::format("--{} has no effect: {} {}", flag, options.data, what));
  };
  if (options.keep_direction && !dataset.graph.directed) {
    warn("keep-direction", "holds an undirected graph");
  }
  const InputFormat format =
      options.format == InputFormat::automatic ? detect_format(options.data) : options.format;
  if (options.index_base >= 0 && format == InputFormat::native) {
    warn("index-base", "is a native graph, whose edges are read already");
  } else if (options.index_base >= 0 && !has_base(format)) {
    warn("index-base", "has a format that says from which number nodes count");
  }
  return dataset;
}

std::string describe(const Dataset& dataset) {
  const auto count = [](std::int64_t number, const char* kind, const char* noun) {
    return fmt::format("{} {}{}", with_commas(number), kind, plural(number, noun));
  };
  const Graph& graph = dataset.graph;
  const Labels& labels = dataset.labels;
  const std::string targets = labels.task == Task::regression ? "one number a node to predict"
                              : labels.task == Task::multilabel
                                  ? count(labels.classes, "", "label") + " (multi-label)"
                                  : count(labels.classes, "", "class");
  return fmt::format(
      "{}: {}, {}, {}, {}", dataset.name, count(graph.nodes, "", "node"),
      graph.directed ? count(graph.entries(), "directed ", "edge")
                     : count(graph.entries() / 2, "", "edge"),
      count(dataset.features.cols, dataset.features.sparse ? "sparse " : "dense ", "feature"),
      targets);
}

void require_text(const std::string& text, const char* flag, const char* what) {
  if (text.empty()) {
    throw Error(ErrorCode::usage, fmt::format("--{} is required: {}", flag, what));
  }
}

}  // namespace heliograph::cli
