#pragma once

#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "heliograph/dataset.hpp"
#include "heliograph/train.hpp"

namespace heliograph {

/// Where a run keeps what it writes: run.json, metrics.jsonl, predictions.npy and scores.npy
/// (docs/run_directory.md). Every file is readable at every moment: whole files are renamed into
/// place, and metrics.jsonl grows by whole lines, each written at once.
/// Safe to use from several threads; one process at a time holds a run directory.
class RunDirectory {
 public:
  /// Throws Error(usage) if `path` holds a run and `overwrite` is false, if it is no directory,
  /// or if another process is writing a run there. Changes nothing.
  static void check(const std::filesystem::path& path, bool overwrite);

  /// Creates the directory where needed, removes the files of an earlier run (and no others) if
  /// `overwrite`, and writes run.json: `manifest`, with status "running" and the time.
  /// Throws Error as `check` does, or Error(resource) if the disk is full.
  RunDirectory(std::filesystem::path path, bool overwrite, nlohmann::ordered_json manifest);
  /// Takes hold of a directory whose run goes on from a checkpoint, and changes nothing before
  /// `resume`. Throws Error(usage) if another process is writing a run there, or it cannot be
  /// written to.
  struct Resumed {};
  RunDirectory(std::filesystem::path path, Resumed, nlohmann::ordered_json manifest);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  /// Goes on after `reports`: cuts metrics.jsonl back to their lines (and writes those that it
  /// lacks), removes the predictions of the run so far, and writes run.json as for a new run, with
  /// `resumed_after_epochs`. Throws Error(resource).
  void resume(std::span<const EpochReport> reports);

  /// Appends one line to metrics.jsonl. Throws Error(resource) if the disk is full.
  void append(const EpochReport& report);

  /// Writes predictions.npy (and scores.npy), if the run was ever evaluated.
  void write_predictions(const TrainResult& result);

  /// Writes run.json for the last time: `status` is "completed", "early_stopping", "interrupted"
  /// or "failed"; `members` (result or error) are added. The first call counts.
  void finish(const std::string& status, const nlohmann::ordered_json& members);

  /// `finish("interrupted")` for a process that is about to end by force: gives up after
  /// `patience_seconds` if another thread is writing, and never throws.
  void abandon(const nlohmann::ordered_json& members, double patience_seconds) noexcept;

  const std::filesystem::path& path() const { return path_; }
  /// Where the checkpoints of a run directory lie.
  static std::filesystem::path checkpoints(const std::filesystem::path& path) {
    return path / "checkpoints";
  }

 private:
  void begin();
  void write_manifest();
  void remove_partial_files();
  void finish_locked(const std::string& status, const nlohmann::ordered_json& members);

  std::timed_mutex mutex_;
  std::filesystem::path path_;
  nlohmann::ordered_json manifest_;
  int metrics_ = -1;    ///< Descriptor of metrics.jsonl, locked while the run lives.
  int epochs_ = 0;      ///< Lines written.
  bool begun_ = false;  ///< run.json is this run's.
  bool finished_ = false;
};

}  // namespace heliograph
