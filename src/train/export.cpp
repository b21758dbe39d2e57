#include "train/export.hpp"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/throw_error.hpp"
#include "graph/io/npz.hpp"
#include "graph/io/parts.hpp"
#include "train/checkpoint/model_file.hpp"
#include "train/checkpoint/safetensors.hpp"
#include "train/file_layer.hpp"
#include "train/run/output_file.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

/// A column of a table: its heading, and a function that appends the field of a node.
struct Column {
  std::string name;
  std::function<void(std::size_t node, std::string& text)> append;
};

/// A text as a field of a CSV file.
std::string field_of(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

void write_table(const fs::path& file, std::size_t nodes, const std::vector<Column>& columns) {
  write_and_rename(file, [&](std::unique_ptr<FileSink> sink) {
    std::string text = "node";
    for (const Column& column : columns) text += ',' + field_of(column.name);
    for (std::size_t node = 0; node < nodes; ++node) {
      text += fmt::format("\n{}", node);
      for (const Column& column : columns) {
        text += ',';
        column.append(node, text);
      }
      sink->write(std::as_bytes(std::span(text)));
      text.clear();
    }
    text += '\n';
    sink->write(std::as_bytes(std::span(text)));
    sink->close();
  });
}

std::size_t columns_of(const NodeValues& values) {
  return values.shape.size() < 2 ? 1 : static_cast<std::size_t>(values.shape[1]);
}

/// A column of numbers, one every `cols` entries of `values` from `first`.
template <class Values>
Column column_of(std::string name, std::shared_ptr<const Values> values, std::size_t first = 0,
                 std::size_t cols = 1) {
  return {std::move(name), [=](std::size_t node, std::string& text) {
            text += fmt::format("{}", (*values)[node * cols + first]);
          }};
}

std::string class_text(const std::vector<std::string>& names, std::size_t id) {
  return id < names.size() ? names[id] : std::to_string(id);
}

/// Columns of the predicted and the true class, set of classes or number.
std::vector<Column> prediction_columns(const NodeValues& predictions, const Dataset& dataset) {
  const Labels& labels = dataset.labels;
  if (labels.task == Task::regression) {
    const auto numbers = std::make_shared<const Array<float>>(to_float32(predictions));
    const auto label = [&labels](std::size_t node, std::string& text) {
      if (labels.has_label(static_cast<NodeId>(node))) {
        text += fmt::format("{}", labels.values[node]);
      }
    };
    return {column_of("prediction", numbers), {"label", label}};
  }
  const auto ids = std::make_shared<const std::vector<std::int32_t>>(to_int32(predictions));
  if (labels.task == Task::multiclass) {
    std::vector<std::string> names;
    for (std::size_t id = 0; id < static_cast<std::size_t>(labels.classes); ++id) {
      names.push_back(field_of(class_text(dataset.class_names, id)));
    }
    const auto append = [names](std::int32_t id, std::string& text) {
      if (id >= 0) text += class_text(names, static_cast<std::size_t>(id));
    };
    return {
        {"prediction", [=](std::size_t node, std::string& text) { append((*ids)[node], text); }},
        {"label", [&labels, append](std::size_t node, std::string& text) {
           append(labels.class_of[node], text);
         }}};
  }
  std::vector<Column> columns;
  const auto classes = static_cast<std::size_t>(labels.classes);
  for (std::size_t id = 0; id < classes; ++id) {
    columns.push_back(
        column_of("prediction_" + class_text(dataset.class_names, id), ids, id, classes));
  }
  for (std::size_t id = 0; id < classes; ++id) {
    columns.push_back({"label_" + class_text(dataset.class_names, id),
                       [=, &labels](std::size_t node, std::string& text) {
                         if (labels.labelled[node] == 0) return;
                         text += labels.indicators[node * classes + id] != 0 ? '1' : '0';
                       }});
  }
  return columns;
}

const char* role_text(Role role) {
  switch (role) {
    case Role::train:
      return "train";
    case Role::validation:
      return "validation";
    case Role::test:
      return "test";
    default:
      return "none";
  }
}

}  // namespace

std::optional<NodeValues> kept_values(const fs::path& run, const std::string& name) {
  const fs::path file = run / (name + ".npy");
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return {};
  NpyArray values = read_npy(file);
  if (values.shape.empty() || values.shape.size() > 2) {
    throw_error(ErrorCode::bad_input, "{}: its shape {} is not nodes x columns", file.string(),
                values.shape_text());
  }
  return values;
}

NodeValues computed_values(const Model& model, const Dataset& dataset, const std::string& name,
                           const LogCallback& log) {
  PredictOptions request;
  request.logits = name == "logits";
  request.embeddings = name == "embeddings";
  request.log = log;
  Outputs outputs = model.predict(dataset, request);
  const std::int64_t nodes = dataset.graph.nodes;
  if (request.logits) return as_array(name, std::move(outputs.logits), {nodes, model.classes});
  if (request.embeddings) {
    return as_array(name, std::move(outputs.embeddings), {nodes, outputs.embedding_cols});
  }
  if (!outputs.values.empty()) return as_array(name, std::move(outputs.values), {nodes});
  if (outputs.prediction_cols == 1) return as_array(name, std::move(outputs.predictions), {nodes});
  return as_array(name, std::move(outputs.predictions), {nodes, outputs.prediction_cols});
}

void write_values(const fs::path& file, const NodeValues& values,
                  const std::vector<std::string>& headings) {
  if (file.extension() == ".npy") {
    write_npy(file, values);
    return;
  }
  const auto nodes = static_cast<std::size_t>(values.shape[0]);
  const std::size_t cols = columns_of(values);
  const auto numbers = std::make_shared<const Array<float>>(to_float32(values));
  if (file.extension() == ".safetensors") {
    const std::string name = fs::path(values.name).stem().string();
    Tensor tensor{name, {nodes, cols}, {numbers->begin(), numbers->end()}};
    write_and_rename(file, [&](std::unique_ptr<FileSink> sink) {
      write_safetensors(std::move(sink), {{std::move(tensor)}, ""});
    });
    return;
  }
  std::vector<Column> columns;
  for (std::size_t c = 0; c < cols; ++c) {
    columns.push_back(column_of(class_text(headings, c), numbers, c, cols));
  }
  write_table(file, nodes, columns);
}

void write_prediction_table(const fs::path& file, const NodeValues& predictions,
                            const Dataset& dataset, const Split& split) {
  const Labels& labels = dataset.labels;
  const bool multilabel = labels.task == Task::multilabel;
  const std::int64_t cols = multilabel ? labels.classes : 1;
  if (predictions.shape[0] != dataset.graph.nodes ||
      predictions.elements() != dataset.graph.nodes * cols) {
    throw_error(ErrorCode::mismatch, "{}: its shape {} does not fit {} nodes of '{}'",
                predictions.name, predictions.shape_text(), dataset.graph.nodes, dataset.name);
  }
  std::vector<Column> columns = prediction_columns(predictions, dataset);
  columns.push_back(
      {"role", [&](std::size_t node, std::string& text) { text += role_text(split.role[node]); }});
  write_table(file, static_cast<std::size_t>(dataset.graph.nodes), columns);
}

void write_weights(const fs::path& file, const Model& model) {
  if (file.extension() != ".npz") {
    model.save(file);
    return;
  }
  std::vector<NpyArray> arrays;
  for (const Tensor& tensor : tensors_of(model)) {
    arrays.push_back(
        as_array(tensor.name, tensor.values, {tensor.shape.begin(), tensor.shape.end()}));
  }
  write_npz(file, arrays);
}

}  // namespace heliograph
