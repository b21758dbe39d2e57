#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "comm/communicator.hpp"
#include "heliograph/log.hpp"
#include "heliograph/options.hpp"
#include "train/checkpoint/manifest.hpp"
#include "train/checkpoint/run_state.hpp"
#include "train/file_layer.hpp"
#include "train/trainer.hpp"

namespace heliograph {

/// Saves the checkpoints of a run. Every rank has one and makes the same calls; each writes its
/// own file into a folder that all of them see, and rank 0 the others.
class CheckpointSaver {
 public:
  /// `identify`: called on rank 0, once, before the first save. References must outlive the saver.
  CheckpointSaver(const CheckpointOptions& options, Communicator& comm, Trainer& trainer,
                  std::function<RunIdentity()> identify, LogCallback log,
                  FileLayer& files = disk_files());

  bool enabled() const { return !options_.folder.empty(); }
  /// Whether a checkpoint is due after `epochs` epochs. `asked`: by the callbacks; `last`: the run
  /// ends here.
  bool due(int epochs, bool asked, bool last) const;

  /// Collective. Saves after state.epochs epochs; `reports` of rank 0 count. Older checkpoints are
  /// removed only when the new one is whole, but for the one before it. Returns false where that
  /// failed and the run goes on, with a warning in the log: all is as it was before then.
  /// Throws Error: resource, on every rank, if it failed and either `must_save` or the options say
  /// that the run stops; peer_lost.
  bool save(const RunState& state, std::span<const EpochReport> reports, bool must_save);

 private:
  void write_files(const RunState& state, std::span<const EpochReport> reports,
                   std::int64_t evaluation_bytes, CheckpointManifest& manifest, FileRecord& mine);
  void complete(CheckpointManifest& manifest, std::span<const FileRecord> ranks);
  void remove_others(int epochs);
  /// Runs `action` and returns what every rank then knows: the sentence of the first rank whose
  /// action failed, empty if none did. Collective.
  std::string attempt(const std::function<void()>& action);
  std::filesystem::path partial(int epochs) const;

  const CheckpointOptions& options_;
  Communicator& comm_;
  Trainer& trainer_;
  std::function<RunIdentity()> identify_;
  LogCallback log_;
  FileLayer& files_;
  std::optional<RunIdentity> identity_;
  /// The whole checkpoint that this run saved last or goes on from.
  std::filesystem::path previous_;
};

/// Puts a trainer where the checkpoint at `path`, of which `manifest` is, has left it. Called by
/// every rank. Throws Error: bad_input (damaged: names file and field), mismatch (weights of
/// another shape).
RunState restore_run(const CheckpointManifest& manifest, const std::filesystem::path& path,
                     int patience, Trainer& trainer, Communicator& comm);

}  // namespace heliograph
