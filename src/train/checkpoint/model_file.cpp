#include "train/checkpoint/model_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/plural.hpp"
#include "core/throw_error.hpp"
#include "graph/io/files.hpp"
#include "graph/io/json.hpp"
#include "graph/task_name.hpp"
#include "heliograph/checkpoint.hpp"
#include "layers/compose.hpp"
#include "train/checkpoint/folder.hpp"
#include "train/checkpoint/manifest.hpp"
#include "train/checkpoint/safetensors.hpp"
#include "train/options/fields.hpp"
#include "train/options/json.hpp"
#include "train/options/values.hpp"
#include "train/run/output_file.hpp"
#include "train/run/run_directory.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kMean = "features.mean";
constexpr const char* kDeviation = "features.deviation";

constexpr std::string_view kSplitOptions[] = {"split", "split-seed", "stratified"};

/// The options that a model holds, by flag name.
ordered_json model_options(const Model& model) {
  TrainOptions options;
  options.model = model.options;
  options.normalize = model.normalize;
  options.reproducible = model.reproducible;
  if (model.split) options.split = *model.split;
  ordered_json object = ordered_json::object();
  for (const auto& field : train_option_fields()) {
    const bool of_split = std::ranges::count(kSplitOptions, field.name) > 0;
    const bool held = field.group == "Model" || field.name == "normalize" ||
                      field.name == "reproducible" || (of_split && model.split);
    if (!held || !field.get) continue;
    if (auto value = field.get(options); !value.is_null()) object[field.name] = std::move(value);
  }
  return object;
}

/// Everything of a model but its tensors. JSON has no NaN, which becomes null.
std::string describe_model(const Model& model) {
  ordered_json object{{"epoch", model.epoch},
                      {"metric", choice_name(model.metric)},
                      {"train_metric", model.train_metric},
                      {"val_metric", model.val_metric},
                      {"test_metric", model.test_metric},
                      {"task", task_name(model.task)},
                      {"classes", model.classes},
                      {"class_names", model.class_names},
                      {"feature_cols", model.feature_cols},
                      {"options", model_options(model)}};
  if (model.graph) {
    object["graph"] = {{"directed", model.graph->directed}, {"weighted", model.graph->weighted}};
  }
  if (model.task == Task::regression) {
    object["target"] = {{"mean", model.target.mean}, {"deviation", model.target.deviation}};
  }
  return json_text(object);
}

double score_of(const ordered_json& value) {
  return value.is_null() ? std::nan("") : value.get<double>();
}

Model interpret_model(const ordered_json& object, const std::string& origin) {
  Model model;
  TrainOptions options;
  options_from_json(object.at("options"), origin, options);
  model.options = options.model;
  model.normalize = options.normalize;
  model.reproducible = options.reproducible;
  if (object.at("options").contains(kSplitOptions[0])) model.split = options.split;
  model.epoch = object.at("epoch").get<int>();
  model.metric = parse_choice<Metric>("metric", object.at("metric").get<std::string>());
  model.train_metric = score_of(object.at("train_metric"));
  model.val_metric = score_of(object.at("val_metric"));
  model.test_metric = score_of(object.at("test_metric"));
  const auto name = object.at("task").get<std::string>();
  const std::optional<Task> task = find_task(name);
  if (!task) throw std::out_of_range("no such task: " + name);
  model.task = *task;
  if (model.task == Task::regression) {
    model.target = {object.at("target").at("mean").get<double>(),
                    object.at("target").at("deviation").get<double>()};
  }
  if (object.contains("graph")) {
    const ordered_json& graph = object.at("graph");
    model.graph = {graph.at("directed").get<bool>(), graph.at("weighted").get<bool>()};
  }
  model.classes = object.at("classes").get<std::int32_t>();
  model.class_names = object.at("class_names").get<std::vector<std::string>>();
  model.feature_cols = object.at("feature_cols").get<std::int64_t>();
  return model;
}

/// Moves the values of the tensor called `name`, if there is one, out of `tensors`.
std::vector<float> take(std::vector<Tensor>& tensors, const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &Tensor::name);
  if (found == tensors.end()) return {};
  std::vector<float> values = std::move(found->values);
  tensors.erase(found);
  return values;
}

}  // namespace

std::vector<Tensor> tensors_of(const Model& model) {
  std::vector<Tensor> tensors = model.tensors;
  if (!model.statistics.empty()) {
    const std::uint64_t cols = model.statistics.mean.size();
    tensors.push_back({kMean, {cols}, model.statistics.mean});
    tensors.push_back({kDeviation, {cols}, model.statistics.deviation});
  }
  return tensors;
}

FileRecord write_model(std::unique_ptr<FileSink> sink, const Model& model) {
  return write_safetensors(std::move(sink), {tensors_of(model), describe_model(model)});
}

Model read_model(const fs::path& file, const FileRecord* record) {
  SafetensorsContents contents = read_safetensors(file, record);
  try {
    if (nests_too_deeply(contents.text)) throw std::out_of_range("they nest lists too deeply");
    Model model = interpret_model(parse_json<ordered_json>(contents.text), file.string());
    model.statistics.mean = take(contents.tensors, kMean);
    model.statistics.deviation = take(contents.tensors, kDeviation);
    const bool standard = model.normalize == Normalization::standard;
    const auto cols = static_cast<std::size_t>(standard ? model.feature_cols : 0);
    if (model.feature_cols < 1 || model.statistics.mean.size() != cols ||
        model.statistics.deviation.size() != cols) {
      throw std::out_of_range("the statistics of features do not fit their normalisation");
    }
    model.tensors = std::move(contents.tensors);
    return model;
  } catch (const std::exception& error) {
    throw_error(ErrorCode::bad_input, "{}: its metadata are not of this build: {}", file.string(),
                reason_of(error));
  }
}

void require_fit(const Model& model, const std::string& origin, std::int64_t feature_cols,
                 Task task, std::int32_t classes) {
  if (model.feature_cols != feature_cols) {
    throw_error(ErrorCode::mismatch, "{}: the model reads {} feature columns; the data set has {}",
                origin, model.feature_cols, feature_cols);
  }
  if (model.task != task) {
    throw_error(ErrorCode::mismatch, "{}: the model predicts {}; the data set has {}", origin,
                label_text(model.task), label_text(task));
  }
  if (model.classes != classes) {
    throw_error(ErrorCode::mismatch, "{}: the model predicts {}; the data set has {}", origin,
                counted(model.classes, "class"), classes);
  }
}

void require_same_classes(const Model& model, const std::string& origin,
                          const std::vector<std::string>& names) {
  const std::vector<std::string>& known = model.class_names;
  if (known.empty() || names.empty() || known == names) return;
  const auto [theirs, ours] = std::ranges::mismatch(known, names);
  if (theirs == known.end() || ours == names.end()) {
    throw_error(ErrorCode::mismatch, "{}: the model predicts {}; the data set has {}", origin,
                counted(model.classes, "class"), names.size());
  }
  throw_error(ErrorCode::mismatch, "{}: class {} is '{}' to the model and '{}' in the data set",
              origin, theirs - known.begin(), *theirs, *ours);
}

void warn_of_unnamed_classes(const Model& model, const std::string& origin,
                             const std::vector<std::string>& names, const LogCallback& log) {
  if (!log || model.class_names.empty() == names.empty()) return;
  const bool data_names = model.class_names.empty();
  log(LogLevel::warning,
      fmt::format("{}: the classes of the {} have names, those of the {} have none, so they are "
                  "matched by number: 0 is '{}'",
                  origin, data_names ? "data set" : "model", data_names ? "model" : "data set",
                  data_names ? names[0] : model.class_names[0]));
}

Dataset with_classes_of(const Model& model, const std::string& origin, Dataset dataset) {
  const std::vector<std::string>& known = model.class_names;
  if (known.empty() || dataset.class_names.empty() || known == dataset.class_names ||
      model.task != Task::multiclass || dataset.labels.task != Task::multiclass) {
    require_same_classes(model, origin, dataset.class_names);
    return dataset;
  }
  std::vector<std::int32_t> ids;
  for (const std::string& name : dataset.class_names) {
    const auto found = std::ranges::find(known, name);
    if (found == known.end()) {
      throw_error(ErrorCode::mismatch, "{}: the data set has class '{}', which the model lacks",
                  origin, name);
    }
    ids.push_back(static_cast<std::int32_t>(found - known.begin()));
  }
  std::vector<std::int32_t> class_of(dataset.labels.class_of.begin(),
                                     dataset.labels.class_of.end());
  for (std::int32_t& c : class_of) {
    // Labels are only checked later.
    if (c >= 0 && c < std::ssize(ids)) c = ids[static_cast<std::size_t>(c)];
  }
  dataset.labels.class_of = std::move(class_of);
  dataset.labels.classes = model.classes;
  dataset.class_names = known;
  return dataset;
}

std::string why_other_graph(const Model& model, GraphKind kind) {
  if (!model.graph) return {};
  if (attends(model.options)) kind.weighted = model.graph->weighted;  // Attention ignores weights.
  if (*model.graph == kind) return {};
  if (model.graph->directed != kind.directed) {
    return spell_options(kind.directed
                             ? "trained on an undirected graph, and this one is directed: import "
                               "or read the data without --keep-direction"
                             : "trained on a directed graph, and this one is undirected: import or "
                               "read the data with --keep-direction");
  }
  return spell_options(kind.weighted
                           ? "trained on a graph without edge weights, and this one has some: read "
                             "the data with --ignore-weights"
                           : "trained on a graph with edge weights, and this one has none: give "
                             "the data set with its weights, and no --ignore-weights");
}

std::uint64_t hash_of(const Model& model) {
  RunningHash hash;
  for (const Tensor& tensor : model.tensors) hash.add(std::as_bytes(std::span(tensor.values)));
  hash.add(std::as_bytes(std::span(model.statistics.mean)));
  hash.add(std::as_bytes(std::span(model.statistics.deviation)));
  hash.add(std::as_bytes(std::span(&model.target, 1)));
  return hash.value();
}

Model Model::load(const fs::path& path) {
  std::error_code ignored;
  RunDirectory::of(path);
  if (!fs::is_directory(path, ignored)) return read_model(path, nullptr);
  if (is_there(path / kCheckpointManifest)) {
    try {
      const CheckpointManifest manifest = read_checkpoint_manifest(path);
      return read_model(path / kWeightsFile, &manifest.file(kWeightsFile, path));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::bad_input) verify_checkpoint(path);  // Names a whole one.
      throw;
    }
  }
  if (is_there(path / kBestFile)) return read_model(path / kBestFile, nullptr);
  const fs::path newest = newest_checkpoint(RunDirectory::checkpoints(path));
  if (!newest.empty()) {
    throw_error(ErrorCode::bad_input,
                "{} holds no {}, which a run writes when it ends; its newest checkpoint is {}",
                path.string(), kBestFile, newest.string());
  }
  throw_error(ErrorCode::bad_input,
              "{} holds no {}: it is no run directory, or its run has not ended and saved no "
              "checkpoint",
              path.string(), kBestFile);
}

void Model::save(const fs::path& path) const {
  write_and_rename(path,
                   [&](std::unique_ptr<FileSink> sink) { write_model(std::move(sink), *this); });
}

}  // namespace heliograph
