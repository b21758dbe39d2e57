#include "cli/train_request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "heliograph/error.hpp"
#include "train/options_json.hpp"

namespace heliograph::cli {
namespace {

auto input_of = [](auto& request) -> auto& { return request.input; };
auto train_of = [](auto& request) -> auto& { return request.train; };

}  // namespace

std::vector<OptionField<TrainRequest>> run_fields() {
  std::vector<OptionField<TrainRequest>> fields;
  for (const auto& field : input_fields()) {
    fields.push_back(lift_field<TrainRequest>(field, input_of));
  }
  for (const auto& field : train_option_fields()) {
    fields.push_back(lift_field<TrainRequest>(field, train_of));
  }
  fields.push_back(make_field<TrainRequest>(
      "balance-train", "Ranks and partition", "",
      "METIS also gives every rank its share of the training nodes.",
      [](auto& r) -> auto& { return r.balance_train; }));
  return fields;
}

std::vector<OptionField<TrainRequest>> request_fields() {
  const std::string group = "Results";
  auto fields = run_fields();
  fields.push_back(make_optional_text<TrainRequest>(
      "out", group, "DIR",
      "Run directory: run.json, metrics.jsonl (a line an epoch), predictions.npy, checkpoints.",
      [](auto& r) -> auto& { return r.out; }));
  fields.push_back(make_field<TrainRequest>(
      "overwrite", group, "", "Replace the run that --out holds.",
      [](auto& r) -> auto& { return r.overwrite; }));
  fields.push_back(make_optional_text<TrainRequest>(
      "resume", "Checkpoints", "DIR",
      "Go on from a checkpoint: the newest of a run directory, or this one. Takes the options of "
      "its run, and goes on in its run directory unless --out names another.",
      [](auto& r) -> auto& { return r.resume; }));
  fields.push_back(make_optional_text<TrainRequest>(
      "summary", group, "FILE.json", "Write scores, times, bytes and memory as one JSON file.",
      [](auto& r) -> auto& { return r.summary; }));
  for (const auto& field : message_fields()) {
    fields.push_back(lift_field<TrainRequest>(field, input_of));
  }
  return fields;
}

nlohmann::json read_config(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorCode::usage, fmt::format("--config {} cannot be read", path));
  nlohmann::json config;
  try {
    config = nlohmann::json::parse(file);
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::usage, fmt::format("--config {} is not JSON: {}", path, error.what()));
  }
  if (config.is_object() && config.value("format", nlohmann::json()) == "heliograph-run") {
    if (!config.contains("options")) {
      throw Error(ErrorCode::usage, fmt::format("--config {} is a run.json without options", path));
    }
    return config.at("options");
  }
  return config;
}

std::vector<std::string> warnings(const TrainRequest& request) {
  const ExchangeOptions& exchange = request.train.exchange;
  const int layers = request.train.model.layers;
  const int parts = request.train.partition.parts;
  const int bits = std::min(exchange.bits_forward, exchange.bits_backward);
  std::vector<std::string> lines;
  if (parts > 1 && exchange.staleness > 0 && layers >= 4) {
    lines.push_back(fmt::format(
        "{} layers with --staleness {}{} often lose much of their score: compare with --staleness "
        "0, or try --warmup-epochs and --sync-every",
        layers, exchange.staleness, bits < 32 ? fmt::format(" at {} bits", bits) : ""));
  } else if (parts > 1 && bits == 1 && layers >= 6) {
    lines.push_back(fmt::format(
        "{} layers at 1 bit can lose score on some graphs: compare with --bits 4 or more", layers));
  }
  if (exchange.staleness == 0 && (exchange.sync_every > 0 || exchange.warmup_epochs > 0)) {
    lines.push_back("--sync-every and --warmup-epochs have no effect with --staleness 0");
  }
  if (parts == 1 && (bits < 32 || exchange.staleness > 0)) {
    lines.push_back("--bits and --staleness have no effect with --parts 1: nothing is exchanged");
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
