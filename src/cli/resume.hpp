#pragma once

#include <filesystem>
#include <string>

#include "cli/train_request.hpp"

namespace heliograph::cli {

/// The checkpoint that --resume or --checkpoint names.
struct ResumePoint {
  std::filesystem::path checkpoint;
  std::filesystem::path run;  ///< The run directory that holds it; empty if none does.
};

/// `path`: a checkpoint, or a run directory, whose newest checkpoint is used.
/// Throws Error(bad_input) that names `flag` if there is no checkpoint.
ResumePoint find_resume_point(const std::string& flag, const std::string& path);

/// Sets the options of the checkpoint's run and, from its run directory, the path of its data.
/// Throws as `verify_checkpoint` if the checkpoint is damaged.
void apply_resumed(const ResumePoint& point, TrainRequest& request);

/// Whether `request` resumes a run in that run's own directory.
bool resumes_in_run_directory(const TrainRequest& request);

}  // namespace heliograph::cli
