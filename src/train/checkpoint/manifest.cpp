#include "train/checkpoint/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "graph/io/files.hpp"
#include "graph/io/json.hpp"
#include "graph/io/manifest_file.hpp"
#include "graph/refuse.hpp"
#include "heliograph/version.hpp"
#include "train/options/fields.hpp"
#include "train/options/json.hpp"
#include "train/run/output_file.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kFormat = "heliograph-checkpoint";
constexpr int kVersion = 4;

// The manifest ends in a checksum of all its bytes before kTailBegin.
constexpr std::string_view kTailBegin = ",\n  \"xxh64\": \"";
constexpr std::string_view kTailEnd = "\"\n}\n";
constexpr std::size_t kHexDigits = 16;

/// Options that may differ from the checkpoint's: they change speed, or what comes after the
/// checkpoint, but no number before that. Partitions are compared by their hash.
constexpr std::string_view kFree[] = {"epochs",           "patience",       "partitioner",
                                      "objective",        "partition-seed", "balance-train",
                                      "memory-limit-mib", "save-logits",    "save-embeddings",
                                      "verify",           "guard"};
/// Options that do not change what weights mean, so that a new run may begin with these weights.
constexpr std::string_view kNotInWeights[] = {
    "parts",       "exchange",      "kept-columns", "bits",        "bits-forward", "bits-backward",
    "bits-policy", "gradient-bits", "staleness",    "stale-sites", "lr",           "dropout"};
/// Groups of options that may differ, all but --device.
constexpr std::string_view kFreeGroups[] = {"Transport", "Checkpoints"};

bool is_free(const std::string& option) {
  if (std::ranges::count(kFree, option) > 0) return true;
  if (option == "device") return false;
  const auto fields = train_option_fields();
  const auto field = std::ranges::find(fields, option, &OptionField<TrainOptions>::name);
  return field != fields.end() && std::ranges::count(kFreeGroups, field->group) > 0;
}

template <class... Args>
[[noreturn]] void refuse_resume(const fs::path& path, fmt::format_string<const Args&...> sentence,
                                const Args&... args) {
  const fmt::string_view text = sentence;
  throw_error(
      ErrorCode::mismatch, "--resume {}: {}", path.string(),
      fmt::vformat(spell_options({text.data(), text.size()}), fmt::make_format_args(args...)));
}

std::uint64_t parse_hex64(const std::string& text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, 16);
  if (error != std::errc{} || stop != end || text.size() != kHexDigits) {
    throw std::out_of_range("\"" + text + "\" is not a checksum");
  }
  return value;
}

CheckpointManifest to_manifest(const ordered_json& object) {
  CheckpointManifest manifest;
  manifest.epochs = object.at("epochs").get<int>();
  manifest.run.ranks = object.at("ranks").get<int>();
  manifest.run.dataset_name = object.at("dataset").at("name").get<std::string>();
  manifest.run.dataset_hash = object.at("dataset").at("hash").get<std::string>();
  manifest.run.partition_hash = object.at("partition_hash").get<std::string>();
  manifest.run.options = object.at("options");
  complete_earlier_options(manifest.run.options);
  // Checkpoints of earlier versions may lack these.
  manifest.run.exchange.covers = object.value("covers", false);
  manifest.run.exchange.kept_columns =
      object.value("kept_columns", manifest.run.options.value("kept-columns", false));
  for (const auto& [name, entry] : object.at("files").items()) {
    manifest.files[name] = {entry.at("bytes").get<std::uint64_t>(),
                            parse_hex64(entry.at("xxh64").get<std::string>())};
  }
  return manifest;
}

}  // namespace

std::string rank_file(int rank) { return fmt::format("rank-{:05}.state", rank); }

RunIdentity identify_run(const RunPlan& plan) {
  const RunFacts& facts = plan.facts();
  return {facts.name,           plan.dataset_hash(),
          facts.partition_hash, options_for_elsewhere(plan.options()),
          facts.ranks,          {plan.covers(), plan.exchange().kept_columns}};
}

const FileRecord& CheckpointManifest::file(const std::string& name,
                                           const fs::path& directory) const {
  const auto found = files.find(name);
  if (found == files.end()) {
    refuse(directory / kCheckpointManifest, "field files does not list {}", name);
  }
  return found->second;
}

void write_checkpoint_manifest(const CheckpointManifest& manifest, FileSink& sink) {
  ordered_json files = ordered_json::object();
  for (const auto& [name, record] : manifest.files) {
    files[name] = {{"bytes", record.bytes}, {"xxh64", hex64(record.xxh64)}};
  }
  const ordered_json object{
      {"format", kFormat},
      {"format_version", kVersion},
      {"version", version()},
      {"saved", utc_now()},
      {"epochs", manifest.epochs},
      {"ranks", manifest.run.ranks},
      {"dataset", {{"name", manifest.run.dataset_name}, {"hash", manifest.run.dataset_hash}}},
      {"partition_hash", manifest.run.partition_hash},
      {"options", manifest.run.options},
      {"covers", manifest.run.exchange.covers},
      {"kept_columns", manifest.run.exchange.kept_columns},
      {"files", std::move(files)}};
  std::string text = json_text(object, 2);
  text.resize(text.size() - 2);  // the last newline and brace
  const std::uint64_t checksum = xxh64(std::as_bytes(std::span<const char>(text)));
  text += kTailBegin;
  text += hex64(checksum);
  text += kTailEnd;
  sink.write(std::as_bytes(std::span<const char>(text)));
  sink.close();
}

CheckpointManifest read_checkpoint_manifest(const fs::path& directory) {
  const fs::path path = directory / kCheckpointManifest;
  if (!is_there(path)) {
    refuse(directory, "is no checkpoint: it holds no {}", kCheckpointManifest);
  }
  if (is_there(directory / kManifestHashFile)) {
    refuse(directory, "is no checkpoint, but a data set or shards: give it to --data");
  }
  const auto file = MappedFile::open(path);
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()),
                              file->bytes().size());
  constexpr std::size_t tail_bytes = kTailBegin.size() + kHexDigits + kTailEnd.size();
  if (text.size() < tail_bytes || !text.ends_with(kTailEnd) ||
      text.substr(text.size() - tail_bytes, kTailBegin.size()) != kTailBegin) {
    refuse(path, "field xxh64 is damaged or cut off: the file does not end in its checksum");
  }
  const std::size_t body = text.size() - tail_bytes;
  const auto stored = text.substr(body + kTailBegin.size(), kHexDigits);
  if (stored != hex64(xxh64(file->bytes().first(body)))) {
    refuse(path, "does not match its field xxh64: the file is damaged");
  }
  if (nests_too_deeply(text)) refuse(path, "nests lists too deeply");
  const ordered_json object = try_parse_json<ordered_json>(text);
  if (!object.is_object() || object.value("format", ordered_json()) != kFormat) {
    refuse(path, "field format does not say that this is the manifest of a checkpoint");
  }
  if (const ordered_json version = object.value("format_version", ordered_json());
      version != kVersion) {
    throw_error(ErrorCode::mismatch, "{}: has format version {}; this build reads version {}",
                path.string(), json_text(version), kVersion);
  }
  try {
    return to_manifest(object);
  } catch (const std::exception& error) {
    refuse(path, "cannot be interpreted: {}", reason_of(error));
  }
}

void require_same_options(const CheckpointManifest& manifest, const TrainOptions& options,
                          const fs::path& path) {
  const ordered_json now = options_to_json(options);
  const ordered_json& then = manifest.run.options;
  for (const auto& [name, value] : now.items()) {
    const ordered_json before = then.value(name, ordered_json());
    if (is_free(name) || before == value) continue;
    // A run that goes on in another folder names the same file by its whole path.
    if (name == "init-from" && before.is_string() &&
        value.get<std::string>().ends_with("/" + before.get<std::string>())) {
      continue;
    }
    const std::string made =
        then.contains(name) ? "with " + json_text(then.at(name)) : std::string("without it");
    const bool of_weights = std::ranges::find(kNotInWeights, name) == std::end(kNotInWeights);
    refuse_resume(path, "--{} is {}, but the checkpoint was made {}{}", name, json_text(value),
                  made, of_weights ? "" : "; --init-from begins a new run from its weights");
  }
  if (!options.guard && then.value("guard", false)) {
    refuse_resume(path, "--guard is false, but the checkpoint was made with true");
  }
  for (const auto& [name, value] : then.items()) {
    // The weights that the run began with are not read again, so they need not be named.
    if (is_free(name) || name == "init-from" || now.contains(name)) continue;
    refuse_resume(path, "the checkpoint was made with --{} {}, which this run does not use", name,
                  json_text(value));
  }
  const ordered_json epochs = then.value("epochs", ordered_json());
  if (options.optimizer.schedule == Schedule::cosine && epochs != options.epochs) {
    refuse_resume(path,
                  "--epochs is {}, but --schedule cosine has lowered the learning "
                  "rate towards the {} epochs of the checkpoint's run",
                  options.epochs, json_text(epochs));
  }
  if (options.epochs < manifest.epochs) {
    refuse_resume(path, "--epochs is {}, but {} epochs have run", options.epochs, manifest.epochs);
  }
}

void require_same_data(const CheckpointManifest& manifest, const std::string& dataset_hash,
                       const std::string& partition_hash, const fs::path& path) {
  if (!dataset_hash.empty() && dataset_hash != manifest.run.dataset_hash) {
    refuse_resume(path, "the data set's hash is {}, but the checkpoint is of {} ({})", dataset_hash,
                  manifest.run.dataset_name, manifest.run.dataset_hash);
  }
  if (!partition_hash.empty() && partition_hash != manifest.run.partition_hash) {
    refuse_resume(path,
                  "the partition's hash is {}, but the checkpoint was made with "
                  "{}: --partitioner, --objective, --partition-seed and "
                  "--balance-train must cut the graph as they did",
                  partition_hash, manifest.run.partition_hash);
  }
}

}  // namespace heliograph
