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

fs::path run_file(const fs::path& run) { return run / "run.json"; }

CheckpointInfo read_offering(const fs::path& checkpoint) {
  try {
    return read_checkpoint(checkpoint);
  } catch (const Error&) {
    verify_checkpoint(checkpoint);  // Says the same, and which checkpoint before it is whole.
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
  if (fs::exists(run_file(whole), ignored) || fs::is_directory(folder, ignored)) {
    const fs::path newest = newest_checkpoint(folder);
    if (newest.empty()) {
      throw Error(ErrorCode::bad_input,
                  fmt::format("--{} {}: the run has no checkpoint", flag, path));
    }
    return {newest, whole};
  }
  const fs::path run = fs::absolute(whole).parent_path().parent_path();
  return {whole, fs::exists(run_file(run), ignored) ? run : fs::path()};
}

void apply_resumed(const ResumePoint& point, TrainRequest& request) {
  const CheckpointInfo info = read_offering(point.checkpoint);
  std::error_code ignored;
  if (fs::exists(run_file(point.run), ignored)) {
    const std::string path = run_file(point.run).string();
    const auto fields = run_fields();
    apply_json(std::span<const OptionField<TrainRequest>>(fields), read_config(path), path,
               request);
  }
  request.train = info.options;
}

bool goes_on_in_place(const TrainRequest& request) {
  if (request.resume.empty() || request.out.empty()) return false;
  const ResumePoint point = find_resume_point("resume", request.resume);
  std::error_code ignored;
  return !point.run.empty() && fs::equivalent(request.out, point.run, ignored);
}

}  // namespace heliograph::cli
