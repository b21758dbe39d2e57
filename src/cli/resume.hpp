#pragma once

#include <filesystem>
#include <string>

#include "cli/train_request.hpp"

namespace heliograph::cli {

/// What --resume or --checkpoint names.
struct ResumePoint {
  std::filesystem::path checkpoint;
  std::filesystem::path run;  ///< The run directory that it lies in; empty if it lies in none.
};

/// `path`: a run directory, whose newest checkpoint is meant, or a checkpoint.
/// Throws Error(bad_input) that names `flag` if there is none.
ResumePoint find_resume_point(const std::string& flag, const std::string& path);

/// Takes the options of the checkpoint's run, and where its data are if the run directory says so.
/// Throws Error: as `verify_checkpoint` for one that is damaged.
void apply_resumed(const ResumePoint& point, TrainRequest& request);

/// Whether the run of `request` goes on in the directory of the run that it resumes.
bool goes_on_in_place(const TrainRequest& request);

}  // namespace heliograph::cli
