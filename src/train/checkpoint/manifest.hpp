#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "heliograph/checkpoint.hpp"
#include "heliograph/options.hpp"
#include "train/checkpoint/state_file.hpp"
#include "train/file_layer.hpp"
#include "train/plan/run_plan.hpp"

namespace heliograph {

// The names of the files of a checkpoint (docs/checkpoints.md).
inline constexpr const char* kCheckpointManifest = "manifest.json";
inline constexpr const char* kWeightsFile = "weights.safetensors";
inline constexpr const char* kRunFile = "run.state";
std::string rank_file(int rank);

/// What a run must have in common with a checkpoint to resume it: data, partition and options.
struct RunIdentity {
  std::string dataset_name, dataset_hash, partition_hash;
  nlohmann::ordered_json options;  ///< As `options_to_json` gives them.
  int ranks = 0;
  ExchangeChoice exchange;  ///< Also if the options say ExchangedRows::automatic.
};

RunIdentity identify_run(const RunPlan& plan);

/// The contents of manifest.json, the last file of a checkpoint that is written: the run that it
/// belongs to, and size and checksum of every other file.
struct CheckpointManifest {
  RunIdentity run;
  int epochs = 0;  ///< How many had run.
  std::map<std::string, FileRecord> files;

  /// The record of a file. Throws Error(bad_input) if the manifest, which lies in `directory`, does
  /// not list the file.
  const FileRecord& file(const std::string& name, const std::filesystem::path& directory) const;
};

/// Writes the manifest with a checksum of itself. Throws what the sink throws.
void write_checkpoint_manifest(const CheckpointManifest& manifest, FileSink& sink);

/// Reads the manifest in `directory`. Throws Error: bad_input (missing, or a byte is damaged: names
/// the file), mismatch (another format version).
CheckpointManifest read_checkpoint_manifest(const std::filesystem::path& directory);

/// Reads and checks every byte of the files that rank `only` reads, or those of all ranks. Throws
/// as `verify_checkpoint` does.
CheckpointManifest verify_checkpoint_files(const std::filesystem::path& directory,
                                           std::optional<int> only);

/// Throws Error(mismatch) that names an option and both its values, if the option differs from that
/// of the checkpoint at `path` and changes more than speed, messages or the end of the run.
void require_same_options(const CheckpointManifest& manifest, const TrainOptions& options,
                          const std::filesystem::path& path);
/// Throws Error(mismatch) if the hash of the data set or of the partition differs. An empty hash is
/// not compared.
void require_same_data(const CheckpointManifest& manifest, const std::string& dataset_hash,
                       const std::string& partition_hash, const std::filesystem::path& path);

}  // namespace heliograph
