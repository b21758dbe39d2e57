#include "cli/train_data.hpp"

#include <fmt/format.h>

#include <variant>

#include "cli/text.hpp"
#include "heliograph/error.hpp"
#include "heliograph/io.hpp"
#include "heliograph/shards.hpp"
#include "train/options/fields.hpp"
#include "train/options/json.hpp"
#include "train/options/values.hpp"
#include "train/plan/shard_plan.hpp"

namespace heliograph::cli {

std::vector<std::string> set_options_of_shards(TrainRequest& request, const GivenOption& given) {
  const std::string& data = request.input.data;
  std::vector<std::string> replaced;
  if (!is_shards(data)) {
    refuse_flags_of_edge_lists(request.input, given);
    return replaced;
  }
  for (const char* name :
       {"partitioner", "objective", "partition-seed", "balance-train", "format", "index-base",
        "keep-direction", "ignore-weights", "regression", "target"}) {
    if (!given(name)) continue;
    throw Error(ErrorCode::usage,
                fmt::format("--{} does not apply: {} holds shards, which are read and cut already",
                            name, data));
  }
  const nlohmann::json manifest = read_shard_manifest(data), none = nlohmann::json::object();
  nlohmann::json shaped = manifest.at("options");
  shaped.update(manifest.value("cut", none));  // Shards of earlier versions lack it.
  const auto fields = input_fields();
  const std::span<const OptionField<DataOptions>> input(fields);
  const DataOptions wished = request.input;
  take_reading(request.input);
  request.input.data = wished.data;
  request.input.ignore_weights = false;
  apply_json(input, manifest.value("reading", none), data, request.input);
  // A native graph, which import has read, says these itself.
  request.input.keep_direction = manifest.at("directed") == true;
  request.input.regression = manifest.at("labels").at("task") == choice_name(Task::regression);

  nlohmann::ordered_json asked = options_to_json(request.train), fixed = shaped,
                         defaults = options_to_json(TrainOptions());
  asked.update(fields_to_json(input, wished));
  fixed.update(fields_to_json(input, request.input));
  fixed.erase("format");  // However it was found out.
  for (const char* name : {"index-base", "target"}) {
    if (!asked.contains(name) || fixed.contains(name)) continue;
    replaced.push_back(fmt::format("--{} {} has no effect: the shards in {} were read without it",
                                   name, json_text(asked.at(name)), data));
  }
  defaults.update(fields_to_json(input, DataOptions()));
  for (const auto& [name, value] : fixed.items()) {
    const nlohmann::ordered_json wish = asked.value(name, nlohmann::ordered_json());
    if (wish == value) continue;
    if (!given(name)) {
      if (wish != defaults.value(name, nlohmann::ordered_json())) {
        replaced.push_back(fmt::format("--{} {}, which is fixed in the shards, replaces {}", name,
                                       json_text(value), json_text(wish)));
      }
      continue;
    }
    throw Error(ErrorCode::mismatch, fmt::format("--{} {}: the shards in {} were made with {}",
                                                 name, json_text(wish), data, json_text(value)));
  }
  options_from_json(shaped, data, request.train);
  return replaced;
}

TrainData::TrainData(const TrainRequest& request, Progress& progress) {
  if (is_shards(request.input.data)) {
    shards_ = request.input.data;
    shard_manifest_ = read_shard_manifest(shards_);
    return;
  }
  DataOptions input = request.input;
  input.requires_splits = std::holds_alternative<GivenSplit>(request.train.split);
  dataset_ = load(input, progress);
}

std::string TrainData::description() const {
  if (shards_.empty()) return describe(dataset_);
  return fmt::format("{}: {} nodes in {}", shard_manifest_.at("name").get<std::string>(),
                     with_commas(shard_manifest_.at("nodes").get<std::int64_t>()),
                     counted(std::ssize(shard_manifest_.at("ranks")), "shard"));
}

nlohmann::ordered_json TrainData::manifest() const {
  if (!shards_.empty()) {
    const nlohmann::json& m = shard_manifest_;
    return {{"name", m.at("name")},
            {"hash", m.at("graph_hash")},
            {"nodes", m.at("nodes")},
            {"directed", m.at("directed")},
            {"features", m.at("features").at("cols")},
            {"sparse_features", m.at("features").at("sparse")},
            {"classes", m.at("labels").at("classes")},
            {"task", m.at("labels").at("task")},
            {"shards", m.at("identity")}};
  }
  return {{"name", dataset_.name},
          {"hash", dataset_hash(dataset_)},
          {"nodes", dataset_.graph.nodes},
          {"entries", dataset_.graph.entries()},
          {"directed", dataset_.graph.directed},
          {"features", dataset_.features.cols},
          {"sparse_features", dataset_.features.sparse},
          {"classes", dataset_.labels.classes},
          {"task", choice_name(dataset_.labels.task)}};
}

TrainResult TrainData::train(const TrainOptions& options, const TrainCallbacks& callbacks) const {
  return shards_.empty() ? heliograph::train(dataset_, options, callbacks)
                         : train_shards(shards_, options, callbacks);
}

EvaluationResult TrainData::evaluate(const TrainOptions& options, const Model& model,
                                     const LogCallback& log) const {
  return shards_.empty() ? heliograph::evaluate(dataset_, options, model, log)
                         : evaluate_shards(shards_, options, model);
}

}  // namespace heliograph::cli
