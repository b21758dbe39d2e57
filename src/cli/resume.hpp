#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "cli/train_request.hpp"
#include "heliograph/checkpoint.hpp"

namespace heliograph::cli {

/// The checkpoint that --resume or --checkpoint names.
struct ResumePoint {
  std::filesystem::path checkpoint;
  std::filesystem::path run;  ///< The run directory that holds it; empty if none does.
};

/// `path`: a checkpoint, or a run directory, whose newest checkpoint is used.
/// Throws Error(bad_input) that names `flag` if there is no checkpoint.
ResumePoint find_resume_point(const std::string& flag, const std::string& path);

/// `path` as a run that was started in the directory `began` means it, if there is something, or
/// else as it is.
std::filesystem::path path_of_run(const std::filesystem::path& path,
                                  const std::filesystem::path& began);

/// Sets the options of the checkpoint's run, except how its ranks were started, and, from its run
/// directory, the path of its data. The options are those of run.json if the run was last resumed
/// from this checkpoint, maybe with new ones, and else the checkpoint's. `apply_given` then stores
/// what the user gives in their place.
/// Relative paths are those of the directory in which the run was started or, if nothing is there,
/// of the current one. Throws as `verify_checkpoint` if the checkpoint is damaged, and
/// Error(bad_input) that names both paths if the data is at neither.
void apply_resumed(const ResumePoint& point, TrainRequest& request,
                   const std::function<void()>& apply_given);

/// The same for the run in the directory `run`, which may be empty. `checkpoint`: the run's, or
/// nothing to take what run.json says.
void apply_run(const std::filesystem::path& run, const std::optional<CheckpointInfo>& checkpoint,
               TrainRequest& request, const std::function<void()>& apply_given);

/// A function that says how to go on with this run if it ends early: its newest checkpoint and the
/// command that resumes it, or what would have saved one. `launched`: whether a launcher started
/// the ranks. A call takes a fraction of a second at most, even if the file system hangs, and then
/// returns nothing.
std::function<std::string()> advice_for(const TrainRequest& request, bool launched);

/// Whether `request` resumes a run in that run's own directory.
bool resumes_in_run_directory(const TrainRequest& request);

}  // namespace heliograph::cli
