#pragma once

#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "heliograph/dataset.hpp"
#include "heliograph/train.hpp"
#include "train/run/output_file.hpp"

namespace heliograph {

/// Whether this is what a run.json holds.
bool is_run_manifest(const nlohmann::json& object);

/// Throws Error(usage) if `directory` holds a data set, shards or a checkpoint: results there would
/// keep the command from reading it again.
void require_no_data(const std::filesystem::path& directory);

/// The directory of a run: run.json, metrics.jsonl, best.safetensors, predictions.npy and others
/// (docs/run_directory.md). Readers find whole files at every moment: files are written under
/// another name and renamed, and metrics.jsonl grows by whole lines. Safe to use from several
/// threads. One process at a time may hold a run directory.
class RunDirectory {
 public:
  /// Throws Error(usage) if `path` holds a run and `overwrite` is false, if it holds a data set,
  /// shards or a checkpoint, which a run there would make unreadable, if a name of the run's files
  /// is that of something else than a file, if `checkpoints` there is one, or if `path` is no
  /// directory.
  /// What is left of a run that failed before its first epoch does not count. Changes nothing.
  static void check(const std::filesystem::path& path, bool overwrite);
  /// Completes the replacement of an earlier run, if the process that began it died. Throws
  /// Error: usage (another process is writing a run there, or what has a name of the run's is not
  /// of its kind, as in `check`), bad_input (what shows that a replacement was begun is damaged).
  static void complete_replacement(const std::filesystem::path& path);

  /// Creates the directory where needed. If it holds no run, calls `take_over`; otherwise leaves
  /// that run as it is until `append`, `resume` or `take_over` is called.
  /// Throws Error as `check` and `take_over` do, or Error(usage) if another process is writing a
  /// run there.
  RunDirectory(std::filesystem::path path, bool overwrite, nlohmann::ordered_json manifest);
  /// Opens the directory of a run that is resumed, which must exist. Changes nothing before
  /// `resume`. Throws Error(usage) if another process is writing a run there, or if it is not
  /// writable.
  struct Resumed {};
  RunDirectory(std::filesystem::path path, Resumed, nlohmann::ordered_json manifest);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  /// Removes the files of an earlier run (and no others) and writes run.json: the manifest, with
  /// status "running" and the time. If the process dies meanwhile, the directory holds the earlier
  /// run or, once `complete_replacement` is called, this one. Later calls do nothing.
  /// Throws Error(resource) if the disk is full.
  void take_over();

  /// Continues after the epochs of `reports`: cuts metrics.jsonl back to their lines and adds those
  /// that are missing, and writes run.json as for a new run, with `resumed_after_epochs`. Results
  /// of the run's earlier end stay until `write_outputs`. Throws Error(resource).
  void resume(std::span<const EpochReport> reports);

  /// Appends one line to metrics.jsonl. Throws Error(resource) if the disk is full.
  void append(const EpochReport& report);

  /// Writes best.safetensors and, if the run was ever evaluated, predictions.npy and what else
  /// `result` holds for each node, and removes earlier results that these do not replace. Only one
  /// thread may call it.
  void write_outputs(const TrainResult& result, const BeforeFile& before_file = {});

  /// Writes run.json for the last time, with `members` (the result or an error) added. `status`:
  /// "completed", "early_stopping", "interrupted" or "failed". Later calls do nothing.
  void finish(const std::string& status, const nlohmann::ordered_json& members);

  /// Calls `finish`, for a process that is about to end. Gives up if another thread writes run.json
  /// or metrics.jsonl for longer than `patience_seconds`.
  void abandon(const std::string& status, const nlohmann::ordered_json& members,
               double patience_seconds) noexcept;

  const std::filesystem::path& path() const { return path_; }
  /// Whether `path` is the directory of a run. A run.json that another program wrote makes it none,
  /// but a damaged one does not. Throws Error(bad_input) if the directory may not be searched.
  static bool holds_run(const std::filesystem::path& path);
  /// The run directory that `path` is, or in which its run has written it, once the replacement of
  /// the run there is completed; empty if there is none. Throws Error: bad_input (`path` was
  /// removed by that or may not be searched, or the run.json there is no file), usage (as
  /// complete_replacement).
  static std::filesystem::path of(const std::filesystem::path& path);
  /// Whether `file`, which may not exist yet, is one that the run in `directory` writes.
  static bool holds_as_own(const std::filesystem::path& directory,
                           const std::filesystem::path& file);
  /// Whether the run in `path` has written the line of an epoch, at `since` or later.
  static bool has_epochs(
      const std::filesystem::path& path,
      std::filesystem::file_time_type since = std::filesystem::file_time_type::min());
  /// The folder of checkpoints in a run directory.
  static std::filesystem::path checkpoints(const std::filesystem::path& path) {
    return path / "checkpoints";
  }

 private:
  void begin(const char* name);
  void take_over_locked();
  void write_manifest(const char* name);
  void finish_locked(const std::string& status, const nlohmann::ordered_json& members);

  std::timed_mutex mutex_;
  std::filesystem::path path_;
  nlohmann::ordered_json manifest_;
  int metrics_ = -1;       ///< Descriptor of metrics.jsonl, locked while the run lives.
  int epochs_ = 0;         ///< Lines written.
  bool replaces_ = false;  ///< Whether the directory may hold another run, which this one replaces.
  bool begun_ = false;     ///< Whether run.json is this run's.
  bool finished_ = false;
};

}  // namespace heliograph
