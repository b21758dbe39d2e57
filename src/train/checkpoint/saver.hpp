#pragma once

#include <functional>
#include <optional>
#include <string>

#include "comm/communicator.hpp"
#include "heliograph/log.hpp"
#include "heliograph/options.hpp"
#include "train/checkpoint/manifest.hpp"
#include "train/checkpoint/run_state.hpp"
#include "train/file_layer.hpp"
#include "train/trainer.hpp"

namespace heliograph {

/// Saves the checkpoints of a run. Every rank has one and makes the same calls. Each rank writes
/// its own file into a folder that all ranks see; rank 0 also writes the files that ranks share.
class CheckpointSaver {
 public:
  /// `before_saving` (may be empty): called on rank 0, once, before the first save. References must
  /// outlive the saver.
  CheckpointSaver(const RunPlan& plan, Communicator& comm, Trainer& trainer,
                  std::function<void()> before_saving, LogCallback log,
                  FileLayer& files = disk_files());

  bool enabled() const { return !options_.folder.empty(); }
  /// Whether to save after `epochs` epochs. `asked`: the callbacks ask for it; `last`: the run ends
  /// here.
  bool due(int epochs, bool asked, bool last) const;

  /// Whether the run resumed a checkpoint that lies outside its own folder. Collective.
  bool resumed_elsewhere() const;

  /// Saves `state` and the trainer's. Afterwards keeps the new checkpoint and the one before it,
  /// and removes older ones. Returns false if saving failed and the run continues; a warning is
  /// logged and the earlier checkpoints remain. Collective. Throws Error if saving failed and
  /// `must_save` is set or the options say that the run stops: resource on the first rank that
  /// failed, peer_lost with its message on the others.
  bool save(RunState& state, bool must_save);

 private:
  void write_files(const RunState& state, std::int64_t evaluation_bytes,
                   CheckpointManifest& manifest, FileRecord& mine);
  void complete(CheckpointManifest& manifest, std::span<const FileRecord> ranks);
  void remove_others(int epochs);
  /// Runs `action` and returns, on every rank, the error message of the first rank whose action
  /// failed, which becomes failed_rank_, or nothing if none did. Collective.
  std::string attempt(const std::function<void()>& action);
  std::filesystem::path partial(int epochs) const;

  const RunPlan& plan_;
  const CheckpointOptions& options_;
  Communicator& comm_;
  Trainer& trainer_;
  std::function<void()> before_saving_;
  LogCallback log_;
  FileLayer& files_;
  int failed_rank_ = -1;
  std::optional<RunIdentity> identity_;
  /// The checkpoint that this run saved last, or that it resumed from.
  std::filesystem::path previous_;
};

/// Reads the checkpoint at `path`, whose manifest is `manifest`, into a new trainer and a new
/// state. Every rank calls it. Throws Error: bad_input (damaged: names file and field), mismatch
/// (weights of another shape).
void restore_run(const CheckpointManifest& manifest, const std::filesystem::path& path,
                 const Communicator& comm, Trainer& trainer, RunState& state);

}  // namespace heliograph
