#include "cli/resume.hpp"

#include <fmt/format.h>

#include <chrono>
#include <future>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "heliograph/error.hpp"
#include "train/checkpoint/folder.hpp"
#include "train/checkpoint/manifest.hpp"
#include "train/run/output_file.hpp"
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

/// `text` as a shell reads it as one word.
std::string shell_word(const std::string& text) {
  if (text.find_first_of(" \t\n'\"\\$`&;|<>()*?[]{}#~!") == std::string::npos) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

}  // namespace

fs::path path_of_run(const fs::path& path, const fs::path& began) {
  std::error_code ignored;
  const bool moved = !began.empty() && !fs::equivalent(began, ".", ignored);
  return moved && !path.empty() && fs::exists(began / path, ignored) ? began / path : path;
}

ResumePoint find_resume_point(const std::string& flag, const std::string& path) {
  std::error_code ignored;
  const fs::path run = RunDirectory::of(path);
  fs::path whole = fs::path(path);
  if (!whole.has_filename()) whole = whole.parent_path();
  if (!fs::is_directory(whole, ignored)) {
    throw Error(ErrorCode::bad_input,
                fmt::format("--{} {}: {}", flag, path,
                            fs::exists(whole, ignored) ? "is a file; a checkpoint is a directory"
                                                       : "there is no such directory"));
  }
  const fs::path folder = RunDirectory::checkpoints(whole);
  if (fs::is_regular_file(run_json(whole), ignored) || fs::is_directory(folder, ignored)) {
    const fs::path newest = newest_checkpoint(folder);
    if (newest.empty()) {
      std::string why = "the run has no checkpoint";
      if (fs::exists(whole / kBestFile, ignored)) {
        why += "; its best weights can begin a new run: --init-from " + shell_word(path);
      } else {
        why += ", so it cannot go on; train with --overwrite starts it again";
      }
      throw Error(ErrorCode::bad_input, fmt::format("--{} {}: {}", flag, path, why));
    }
    return {newest, whole};
  }
  return {whole, run};
}

void apply_resumed(const ResumePoint& point, TrainRequest& request,
                   const std::function<void()>& apply_given) {
  apply_run(point.run, read_or_name_older(point.checkpoint), request, apply_given);
}

void apply_run(const fs::path& run, const std::optional<CheckpointInfo>& checkpoint,
               TrainRequest& request, const std::function<void()>& apply_given) {
  fs::path began;
  nlohmann::json resumed_after;
  std::error_code ignored;
  // Without a run, run.json would be that of the working directory.
  if (!run.empty() && fs::is_regular_file(run_json(run), ignored)) {
    const std::string path = run_json(run).string();
    const auto fields = run_fields();
    const RunConfig config = read_run_json(path);
    try {
      apply_json(std::span<const OptionField<TrainRequest>>(fields), config.options, path, request);
    } catch (const Error& error) {  // Of what nobody has given.
      const std::string text = error.what();
      throw Error(ErrorCode::bad_input, text.starts_with(path) ? text : path + ": " + text);
    }
    began = config.began;
    resumed_after = config.resumed_after;
  }
  if (checkpoint && resumed_after != checkpoint->epochs) request.train = checkpoint->options;
  TransportOptions& transport = request.train.transport;
  transport.kind = TransportKind::automatic;
  transport.cuda_aware_mpi = CudaAwareMpi::automatic;
  transport.nccl_register = false;
  for (fs::path* file : {&request.train.partition.file, &request.train.init_from}) {
    *file = path_of_run(*file, began);
  }
  DataOptions of_run = take_reading(request.input);
  const std::string data = of_run.data;
  of_run.data = path_of_run(data, began).string();
  apply_given();
  const bool named = !request.input.data.empty();
  give_reading(of_run, request.input);
  if (named || data.empty() || fs::exists(request.input.data, ignored)) return;
  const fs::path there = (began / data).lexically_normal();
  const fs::path here = fs::absolute(data, ignored).lexically_normal();
  if (there == here || began.empty()) {
    throw Error(ErrorCode::bad_input,
                fmt::format("the data of the run, {}, does not exist; --data PATH says where it is",
                            here.string()));
  }
  throw Error(
      ErrorCode::bad_input,
      fmt::format("the data of the run is neither {} (where the run was started) nor {} (here); "
                  "--data PATH says where it is",
                  there.string(), here.string()));
}

std::function<std::string()> advice_for(const TrainRequest& request, bool launched) {
  using Time = fs::file_time_type;
  if (request.out.empty()) return [] { return "nothing is saved, as --out was not given"; };
  // Until the first epoch, an earlier run's checkpoints are still there.
  const Time since = request.overwrite ? Time::clock::now() : Time::min();
  const int every = request.train.checkpoint.every;
  const auto advice = [out = request.out, summary = request.summary, launched, since, every] {
    const auto saved = list_checkpoints(RunDirectory::checkpoints(out));
    std::error_code ignored;
    // A checkpoint may have been saved after metrics.jsonl was closed. One of an earlier run may
    // have just lost files, which changes its directory's time.
    if (saved.empty() ||
        fs::last_write_time(saved.back().second / kCheckpointManifest, ignored) < since) {
      if (!RunDirectory::has_epochs(out, since)) {
        return std::string("no epoch had ended, so the same command starts the run again");
      }
      return "no checkpoint was saved, so only --overwrite starts the run again; " +
             (every > 0 ? fmt::format("the first one is saved after {}", counted(every, "epoch"))
                        : "--checkpoint-every N saves one every N epochs");
    }
    return fmt::format(
        "the newest checkpoint is that after {}: continue with \"heliograph train --resume "
        "{}{}\"{}",
        counted(saved.back().first, "epoch"), shell_word(out),
        summary.empty() ? "" : " --summary " + shell_word(summary),
        launched ? ", by any launcher with as many processes, or in one process" : "");
  };
  return [advice] {
    std::promise<std::string> promise;
    std::future<std::string> found = promise.get_future();
    try {
      std::thread([advice, promise = std::move(promise)]() mutable {
        promise.set_value(advice());
      }).detach();
    } catch (const std::system_error&) {  // No thread is left. The error itself matters more.
      return std::string();
    }
    const auto patience = std::chrono::milliseconds(200);
    return found.wait_for(patience) == std::future_status::ready ? found.get() : std::string();
  };
}

bool resumes_in_run_directory(const TrainRequest& request) {
  if (request.resume.empty() || request.out.empty()) return false;
  const ResumePoint point = find_resume_point("resume", request.resume);
  std::error_code ignored;
  return !point.run.empty() && fs::equivalent(request.out, point.run, ignored);
}

}  // namespace heliograph::cli
