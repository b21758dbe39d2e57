#include "cli/train_request.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "cli/foreign_flags.hpp"
#include "heliograph/error.hpp"
#include "train/options/given.hpp"
#include "train/options/json.hpp"
#include "train/plan/derived_exchanges.hpp"
#include "train/run/machine.hpp"
#include "train/run/run_directory.hpp"

namespace heliograph::cli {

std::vector<OptionField<TrainRequest>> run_fields() {
  FieldTable<TrainRequest> fields;
  fields.add_part(input_fields("The data set: a native graph directory, a file or directory that "
                               "import reads, or shards that partition wrote. Required."),
                  HELIOGRAPH_MEMBER(input));
  fields.add_part(train_option_fields(), HELIOGRAPH_MEMBER(train));
  return fields.take();
}

std::vector<OptionField<TrainRequest>> request_fields() {
  FieldTable<TrainRequest> fields(run_fields());
  fields.group("Checkpoints");
  fields.add(
      "resume", "DIR",
      "Continue a run from a checkpoint: DIR is one, or a run directory, whose newest one is "
      "used. Options and --out are those of that run unless they are given here.",
      HELIOGRAPH_MEMBER(resume));
  fields.group("Results");
  fields.add("out", "DIR",
             "Run directory to write: run.json, metrics.jsonl (one line per epoch), "
             "best.safetensors, predictions.npy and checkpoints.",
             HELIOGRAPH_MEMBER(out));
  fields.add("overwrite", "Replace an earlier run in --out, once the new one has trained an epoch.",
             HELIOGRAPH_MEMBER(overwrite));
  fields.add("summary", "FILE.json",
             "Write scores, times, bytes and memory of the run to a JSON file.",
             HELIOGRAPH_MEMBER(summary));
  fields.add_part(message_fields(), HELIOGRAPH_MEMBER(input));
  return fields.take();
}

namespace {

/// A file of options, and how errors name it.
struct OptionsFile {
  std::string path;
  std::string name;
  ErrorCode code;

  [[noreturn]] void refuse(const std::string& what) const { throw Error(code, name + what); }
};

nlohmann::json read_json(const OptionsFile& from) {
  std::ifstream file(from.path, std::ios::binary);
  std::error_code ignored;
  if (!file || std::filesystem::is_directory(from.path, ignored)) from.refuse(" cannot be read");
  std::vector<std::set<std::string>> open_objects;
  using Event = nlohmann::json::parse_event_t;
  const auto refuse_odd = [&](int depth, Event event, const nlohmann::json& parsed) {
    if (depth > kMostJsonLevels) from.refuse(" nests lists too deeply");
    if (event == Event::object_start) open_objects.emplace_back();
    if (event == Event::object_end) open_objects.pop_back();
    if (event == Event::key && !open_objects.back().insert(parsed.get<std::string>()).second) {
      from.refuse(fmt::format(" gives {} twice: keep one of the two", json_text(parsed)));
    }
    return true;
  };
  try {
    return parse_json(file, refuse_odd);
  } catch (const nlohmann::json::exception& error) {
    from.refuse(" is not JSON: " + reason_of(error));
  }
}

RunConfig read_options(const OptionsFile& from) {
  const nlohmann::json config = read_json(from);
  if (is_run_manifest(config)) {
    if (!config.value("options", nlohmann::json()).is_object()) {
      from.refuse(" is a run.json without options");
    }
    const nlohmann::json began = config.value("working_directory", nlohmann::json(""));
    if (!began.is_string()) {
      from.refuse(fmt::format(": working_directory is {}, not a path", json_text(began)));
    }
    nlohmann::json options = config.at("options");
    complete_earlier_options(options);
    const nlohmann::json none, dataset = config.value("dataset", none);
    return {std::move(options),
            true,
            began.get<std::string>(),
            config.value("resumed_after_epochs", none),
            dataset.is_object() ? dataset.value("hash", none) : none,
            config.value("partition_hash", none)};
  }
  if (config.is_object()) {
    for (const auto& item : config.items()) {
      if (const char* answer = foreign_flag_answer(item.key())) {
        from.refuse(fmt::format(" has an unknown key \"{}\": {}", item.key(), answer));
      }
    }
  }
  RunConfig plain;
  plain.options = config;
  return plain;
}

/// The lines of `warnings` on options without effect.
std::vector<std::string> options_without_effect(const TrainRequest& request,
                                                const GivenOption& flag) {
  const nlohmann::ordered_json values = options_to_json(request.train);
  const nlohmann::ordered_json defaults = options_to_json(TrainOptions());
  const auto changed = [&](const std::string& name) {
    // --bits stands for two options.
    const std::string key = name == "bits" ? "bits-forward" : name;
    return values.value(key, nlohmann::ordered_json()) !=
           defaults.value(key, nlohmann::ordered_json());
  };
  std::vector<std::string> lines;
  const auto note = [&](std::vector<std::string> names, const char* reason) {
    std::erase_if(names, [&](const std::string& name) { return !flag(name); });
    if (names.empty()) return;
    const char* verb = names.size() == 1 ? "has" : "have";
    for (std::string& name : names) {
      name.insert(0, values.value(name, nlohmann::ordered_json()) == false ? "--no-" : "--");
    }
    lines.push_back(fmt::format("{} {} no effect with {}", listed(names, "and"), verb, reason));
  };
  // A sweep over ranks or staleness may well turn off what it does not use.
  const auto used = [&](std::vector<std::string> names) {
    std::erase_if(names, [&](const std::string& name) { return !changed(name); });
    // One part that a file gives is read and checked.
    if (request.train.partition.partitioner == Partitioner::file) std::erase(names, "partitioner");
    return names;
  };
  if (request.train.partition.parts == 1) {
    note(used({"exchange",      "kept-columns",    "bits",       "bits-forward",   "bits-backward",
               "bits-policy",   "gradient-bits",   "staleness",  "stale-sites",    "sync-every",
               "warmup-epochs", "partitioner",     "objective",  "partition-seed", "balance-train",
               "link-gbps",     "link-latency-us", "row-blocks", "verify",         "guard"}),
         "--parts 1: nothing is exchanged");
  } else if (!exchanges_rows(request.train)) {
    note(used({"exchange", "bits", "bits-forward", "bits-backward", "bits-policy", "staleness",
               "stale-sites", "sync-every", "warmup-epochs", "row-blocks", "verify", "guard"}),
         "--layers 1: the features of other ranks' nodes are exchanged once, before training");
  } else {
    const ExchangeOptions& exchange = request.train.exchange;
    if (exchange.staleness == 0) {
      note(used({"stale-sites", "sync-every", "warmup-epochs"}), "--staleness 0");
    }
    if (raised_exchanges(exchange).size() == 1) {
      note(used({"guard"}), "--staleness 0 at 8 bits or more: nothing is safer");
    }
    if (!may_change_bits(request.train)) {
      note(used({"bits-policy"}), "rows that have 8 bits throughout");
    }
    if (!exchange.kept_columns && !exchange.auto_bits.empty()) {
      note({"kept-columns"}, "--bits auto, which leaves out dropped columns");
    }
  }
  for (const auto& [names, reason] : idle_options(request.train.model)) note(names, reason);
  return lines;
}

}  // namespace

RunConfig read_config(const std::string& given) {
  std::error_code ignored;
  const bool directory = std::filesystem::is_directory(given, ignored);
  const std::string path = directory ? (std::filesystem::path(given) / "run.json").string() : given;
  const OptionsFile file{path, "--config " + path, ErrorCode::usage};
  RunDirectory::complete_replacement(std::filesystem::path(path).parent_path());
  // A config may come through a pipe, but no run writes one.
  if (directory && !std::filesystem::is_regular_file(path, ignored)) file.refuse(" cannot be read");
  return read_options(file);
}

RunConfig read_run_json(const std::string& path) {
  return read_options({path, path, ErrorCode::bad_input});
}

std::vector<std::string> warnings(const TrainRequest& request, const GivenOption& flag) {
  const int parts = request.train.partition.parts;
  std::vector<std::string> lines = options_without_effect(request, flag);
  const int threads = request.train.transport.threads_per_rank;
  if (const int cores = describe_machine().cores; threads > cores) {
    lines.push_back(fmt::format(
        "--threads-per-rank {} is more than the {} of this machine, which slows a rank down: 0 "
        "divides them among the ranks",
        threads, counted(cores, "core")));
  }
  if (const int warmup = request.train.optimizer.lr_warmup; warmup >= request.train.epochs) {
    lines.push_back(fmt::format(
        "--lr-warmup {} is not shorter than --epochs {}: the learning rate rises to the end",
        warmup, request.train.epochs));
  }
  if (const int every = request.train.verify_every; parts > 1 && every > request.train.epochs) {
    lines.push_back(fmt::format("--verify {} verifies nothing in {}", every,
                                counted(request.train.epochs, "epoch")));
  }
  if (request.train.patience > 0) {
    const auto epochs =
        static_cast<std::int64_t>(request.train.patience) * request.train.eval_every;
    if (epochs >= request.train.epochs) {
      lines.push_back(fmt::format(
          "--patience {} with --eval-every {} spans {} epochs: it cannot "
          "stop a run of {}",
          request.train.patience, request.train.eval_every, epochs, request.train.epochs));
    } else if (request.train.eval_every > 1) {
      lines.push_back(fmt::format("--patience counts evaluations: {} of them are {} epochs",
                                  request.train.patience, epochs));
    }
  }
  return lines;
}

}  // namespace heliograph::cli
