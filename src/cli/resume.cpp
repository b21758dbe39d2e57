#include "cli/resume.hpp"

#include <fmt/format.h>

#include <span>
#include <system_error>

#include "heliograph/checkpoint.hpp"
#include "heliograph/error.hpp"
#include "train/run/run_directory.hpp"

namespace heliograph::cli {
namespace {

namespace fs = std::filesystem;

fs::path run_json(const fs::path& run) { return run / "run.json"; }

CheckpointInfo read_or_name_older(const fs::path& checkpoint) {
  try {
    return read_checkpoint(checkpoint);
  } catch (const Error&) {
    verify_checkpoint(checkpoint);  // Throws the same, and names an older checkpoint that is whole.
    throw;
  }
}

}  // namespace

ResumePoint find_resume_point(const std::string& flag, const std::string& path) {
  std::error_code ignored;
  fs::path whole = fs::path(path);
  if (!whole.has_filename()) whole = whole.parent_path();
  if (!fs::is_directory(whole, ignored)) {
    throw Error(ErrorCode::bad_input,
                fmt::format("--{} {}: there is no such directory", flag, path));
  }
  const fs::path folder = RunDirectory::checkpoints(whole);
  if (fs::exists(run_json(whole), ignored) || fs::is_directory(folder, ignored)) {
    const fs::path newest = newest_checkpoint(folder);
    if (newest.empty()) {
      throw Error(ErrorCode::bad_input,
                  fmt::format("--{} {}: the run has no checkpoint", flag, path));
    }
    return {newest, whole};
  }
  const fs::path run = fs::absolute(whole).parent_path().parent_path();
  return {whole, fs::exists(run_json(run), ignored) ? run : fs::path()};
}

void apply_resumed(const ResumePoint& point, TrainRequest& request) {
  const CheckpointInfo info = read_or_name_older(point.checkpoint);
  std::error_code ignored;
  if (fs::exists(run_json(point.run), ignored)) {
    const std::string path = run_json(point.run).string();
    const auto fields = run_fields();
    apply_json(std::span<const OptionField<TrainRequest>>(fields), read_config(path), path,
               request);
  }
  request.train = info.options;
}

bool resumes_in_run_directory(const TrainRequest& request) {
  if (request.resume.empty() || request.out.empty()) return false;
  const ResumePoint point = find_resume_point("resume", request.resume);
  std::error_code ignored;
  return !point.run.empty() && fs::equivalent(request.out, point.run, ignored);
}

}  // namespace heliograph::cli
