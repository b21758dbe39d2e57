#include "heliograph/checkpoint.hpp"

#include <optional>

#include "core/throw_error.hpp"
#include "heliograph/error.hpp"
#include "train/checkpoint/folder.hpp"
#include "train/checkpoint/manifest.hpp"
#include "train/checkpoint/model_file.hpp"
#include "train/options/json.hpp"
#include "train/run/output_file.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

CheckpointInfo to_info(const CheckpointManifest& manifest, const fs::path& path) {
  CheckpointInfo info;
  info.path = path;
  info.epochs = manifest.epochs;
  info.ranks = manifest.run.ranks;
  info.dataset_name = manifest.run.dataset_name;
  info.dataset_hash = manifest.run.dataset_hash;
  info.partition_hash = manifest.run.partition_hash;
  try {
    options_from_json(manifest.run.options, (path / kCheckpointManifest).string(), info.options);
  } catch (const Error& error) {
    throw_error(ErrorCode::mismatch, "{}: field options is not of this build: {}",
                (path / kCheckpointManifest).string(), error.what());
  }
  return info;
}

/// As `verify_checkpoint_files`, but errors name no older checkpoint.
CheckpointManifest verify(const fs::path& path, std::optional<int> only) {
  CheckpointManifest manifest = read_checkpoint_manifest(path);
  read_model(path / kWeightsFile, &manifest.file(kWeightsFile, path));
  if (manifest.files.contains(kBestFile)) {
    read_model(path / kBestFile, &manifest.file(kBestFile, path));
  }
  const StateFile run(path / kRunFile, manifest.file(kRunFile, path));
  for (int rank = 0; rank < manifest.run.ranks; ++rank) {
    if (only && rank != *only) continue;
    const std::string name = rank_file(rank);
    const StateFile file(path / name, manifest.file(name, path));
  }
  return manifest;
}

/// The newest whole checkpoint in the same folder that is older than `damaged`; empty if there is
/// none.
fs::path whole_one_before(const fs::path& damaged) {
  const fs::path whole_path = damaged.has_filename() ? damaged : damaged.parent_path();
  const auto all = list_checkpoints(whole_path.parent_path());
  for (auto candidate = all.rbegin(); candidate != all.rend(); ++candidate) {
    if (candidate->second.filename() >= whole_path.filename()) continue;
    try {
      verify(candidate->second, std::nullopt);
      return candidate->second;
    } catch (const Error&) {
      // This one is damaged too. Try the next older one.
    }
  }
  return {};
}

}  // namespace

CheckpointInfo read_checkpoint(const fs::path& path) {
  return to_info(read_checkpoint_manifest(path), path);
}

CheckpointManifest verify_checkpoint_files(const fs::path& path, std::optional<int> only) {
  try {
    return verify(path, only);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) throw;
    const fs::path before = whole_one_before(path);
    if (before.empty()) throw;
    throw_error(ErrorCode::bad_input, "{}; the checkpoint before it is whole: {}", error.what(),
                before.string());
  }
}

CheckpointInfo verify_checkpoint(const fs::path& path) {
  return to_info(verify_checkpoint_files(path, std::nullopt), path);
}

}  // namespace heliograph
