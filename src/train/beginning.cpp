#include "train/beginning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/throw_error.hpp"
#include "graph/io/json.hpp"
#include "layers/compose.hpp"
#include "train/checkpoint/model_file.hpp"
#include "train/launch.hpp"
#include "train/options/fields.hpp"
#include "train/options/given.hpp"
#include "train/options/json.hpp"
#include "train/processes.hpp"

namespace heliograph {
namespace {

/// Options in which a run must not differ from the weights that it begins with.
constexpr std::string_view kKeptByWeights[] = {"normalize", "model", "layers", "hidden", "norm"};

/// Options of the model with which the same weights compute the same.
constexpr std::string_view kOfTraining[] = {"dropout",    "input-dropout",   "attention-dropout",
                                            "precompute", "transform-first", "aggregate-storage"};

}  // namespace

Beginning read_beginning(GraphKind kind, const std::string& dataset_hash,
                         const TrainOptions& options) {
  Beginning beginning;
  const std::filesystem::path& path = options.checkpoint.resume;
  if (path.empty()) {
    if (!options.init_from.empty()) beginning.weights = Model::load(options.init_from);
    return beginning;
  }
  std::optional<int> only;
  if (ranks_are_processes(options.transport)) only = rank_of_process();
  beginning.resumed = verify_checkpoint_files(path, only);
  require_same_options(*beginning.resumed, options, path);
  beginning.weights = Model::load(path);
  // Named before the hash of the data set, which differs too.
  const std::string other = why_other_graph(*beginning.weights, kind);
  if (!other.empty()) throw_error(ErrorCode::mismatch, "--resume {}: {}", path.string(), other);
  require_same_data(*beginning.resumed, dataset_hash, {}, path);
  return beginning;
}

PlanPurpose purpose_of(const Beginning& beginning, const TrainOptions& options,
                       const LogCallback& log, std::int64_t feature_cols, Task task,
                       std::int32_t classes, const std::vector<std::string>& class_names) {
  if (!beginning.weights) return {};
  if (!beginning.resumed) {
    const Model& weights = *beginning.weights;
    require_fit(weights, options.init_from.string(), feature_cols, task, classes);
    require_same_classes(weights, options.init_from.string(), class_names);
    warn_of_unnamed_classes(weights, spell_options("--init-from ") + options.init_from.string(),
                            class_names, log);
    TrainOptions trained, wanted = options;
    trained.model = weights.options;
    trained.normalize = weights.normalize;
    for (TrainOptions* o : {&trained, &wanted}) {
      o->model.norm = norm_of(o->model);
      o->model.jk = joined_by(o->model);
    }
    // Resolving 0 would name --output-heads too where only --heads differs.
    if (output_heads_of(trained.model) == output_heads_of(wanted.model)) {
      trained.model.output_heads = wanted.model.output_heads;
    }
    if (weights.split && log) {
      trained.split = *weights.split;
      const std::string theirs = seeded_split(trained), ours = seeded_split(options);
      if (theirs != ours) {
        log(LogLevel::warning,
            fmt::format(fmt::runtime(spell_options(
                            "--init-from {}: its weights were trained on split {}, and this run "
                            "has {}: their training nodes may be among those scored here")),
                        options.init_from.string(), theirs, ours));
      }
    }
    std::vector<std::string> idle;
    for (const IdleOptions& options_of : idle_options(wanted.model)) {
      idle.insert(idle.end(), options_of.names.begin(), options_of.names.end());
    }
    for (const auto& field : train_option_fields()) {
      const bool kept = std::ranges::count(kKeptByWeights, field.name) > 0;
      if (!kept && (field.group != "Model" || std::ranges::count(kOfTraining, field.name) > 0)) {
        continue;
      }
      const nlohmann::json theirs = field.get(trained), ours = field.get(wanted);
      if (theirs == ours) continue;
      const std::string difference = fmt::format(
          fmt::runtime(spell_options("--init-from {}: its weights were trained with --{} {}, and "
                                     "this run has --{} {}")),
          options.init_from.string(), field.name, plain_text(theirs), field.name, plain_text(ours));
      if (kept) {
        throw Error(ErrorCode::mismatch,
                    difference + spell_options("; --config RUN takes the run's options"));
      }
      if (std::ranges::count(idle, field.name) > 0) continue;
      if (log) log(LogLevel::warning, difference + ", with which they compute something else");
    }
  }
  PlanPurpose purpose{true, beginning.weights->statistics, beginning.weights->target};
  if (beginning.resumed) purpose.exchange = beginning.resumed->run.exchange;
  return purpose;
}

}  // namespace heliograph
