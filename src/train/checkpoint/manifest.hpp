#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "heliograph/checkpoint.hpp"
#include "heliograph/options.hpp"
#include "train/checkpoint/state_file.hpp"
#include "train/file_layer.hpp"
#include "train/plan/run_plan.hpp"

namespace heliograph {

// Names of a checkpoint's files (docs/checkpoints.md).
inline constexpr const char* kCheckpointManifest = "manifest.json";
inline constexpr const char* kWeightsFile = "weights.safetensors";
inline constexpr const char* kRunFile = "run.state";
std::string rank_file(int rank);

/// What must be the same for a run to go on: data, cut and options, as the manifest spells them.
struct RunIdentity {
  std::string dataset_name, dataset_hash, partition_hash;
  nlohmann::ordered_json options;  ///< As `options_to_json` gives them.
  int ranks = 0;
};

RunIdentity identify_run(const RunPlan& plan);

/// The last file of a checkpoint: what it is of, and size and checksum of every other file.
struct CheckpointManifest {
  RunIdentity run;
  int epochs = 0;  ///< That had run.
  std::map<std::string, FileRecord> files;

  /// Throws Error(bad_input): the manifest in `directory` does not list the file.
  const FileRecord& file(const std::string& name, const std::filesystem::path& directory) const;
};

/// Writes the manifest with a checksum of itself. Throws what the sink throws.
void write_checkpoint_manifest(const CheckpointManifest& manifest, FileSink& sink);

/// Throws Error: bad_input (missing, or any byte damaged: names the file), mismatch (another
/// format version).
CheckpointManifest read_checkpoint_manifest(const std::filesystem::path& directory);

/// Refuses options that would make the run another one than that of the checkpoint at `path`;
/// what only decides speed, messages or where the run ends may differ.
/// Throws Error(mismatch) that names the option and both values.
void require_same_options(const CheckpointManifest& manifest, const TrainOptions& options,
                          const std::filesystem::path& path);
/// The same for the data set and the cut. Empty hashes are not compared.
void require_same_data(const CheckpointManifest& manifest, const std::string& dataset_hash,
                       const std::string& partition_hash, const std::filesystem::path& path);

}  // namespace heliograph
