#include "train/run/run_directory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "core/throw_error.hpp"
#include "graph/io/files.hpp"
#include "heliograph/checkpoint.hpp"
#include "heliograph/error.hpp"
#include "train/run/output_file.hpp"
#include "train/run/summary.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRunJson = "run.json";
constexpr const char* kMetricsFile = "metrics.jsonl";
constexpr const char* kCheckpointsFolder = "checkpoints";

[[noreturn]] void fail_run(const char* what, const fs::path& path, int error) {
  const bool exhausted = error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO ||
                         error == EMFILE || error == ENFILE || error == ENOMEM;
  throw Error(
      exhausted ? ErrorCode::resource : ErrorCode::usage,
      fmt::format("{} {}: {}", what, path.string(), std::generic_category().message(error)));
}

void remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) fail_run("cannot remove", path, error.value());
}

/// Opens metrics.jsonl, creates it if necessary, and locks it against other processes.
int open_metrics(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0) fail_run("cannot create", path, errno);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  // Other errors mean that the file system has no locks. The file is then used without.
  if (errno != EWOULDBLOCK) return descriptor;
  ::close(descriptor);
  throw_error(ErrorCode::usage, "--out {}: another process is writing a run there",
              path.parent_path().string());
}

void write_line(int descriptor, std::string line, const fs::path& path) {
  line += '\n';
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t written = ::write(descriptor, line.data() + done, line.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      // Removes an incomplete line, which readers could not parse.
      const off_t end = ::lseek(descriptor, 0, SEEK_END);
      if (done > 0 && end >= static_cast<off_t>(done) &&
          ::ftruncate(descriptor, end - static_cast<off_t>(done)) != 0) {
        fail_run("cannot write nor take back", path, error);
      }
      fail_run("cannot write", path, error);
    }
    done += static_cast<std::size_t>(written);
  }
}

}  // namespace

void RunDirectory::check(const fs::path& path, bool overwrite) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(status)) {
    throw_error(ErrorCode::usage, "--out {} is not a directory", path.string());
  }
  if (overwrite) return;
  for (const char* name :
       {kRunJson, kMetricsFile, kPredictionsFile, kScoresFile, kCheckpointsFolder}) {
    if (fs::exists(path / name, error)) {
      throw_error(ErrorCode::usage,
                  "--out {} already holds a run ({}); choose another "
                  "directory or add --overwrite",
                  path.string(), name);
    }
  }
}

RunDirectory::RunDirectory(fs::path path, bool overwrite, nlohmann::ordered_json manifest)
    : path_(std::move(path)), manifest_(std::move(manifest)) {
  check(path_, overwrite);
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) fail_run("cannot create the directory", path_, error.value());
  metrics_ = open_metrics(path_ / kMetricsFile);
  try {
    if (::ftruncate(metrics_, 0) != 0) fail_run("cannot empty", path_ / kMetricsFile, errno);
    remove_file(path_ / kRunJson);
    remove_checkpoints(checkpoints(path_));
    begin();
  } catch (...) {
    ::close(metrics_);
    throw;
  }
}

RunDirectory::RunDirectory(fs::path path, Resumed, nlohmann::ordered_json manifest)
    : path_(std::move(path)),
      manifest_(std::move(manifest)),
      metrics_(open_metrics(path_ / kMetricsFile)) {}

/// Removes earlier results and writes to run.json that the run is running.
void RunDirectory::begin() {
  for (const char* name : {kPredictionsFile, kScoresFile}) remove_file(path_ / name);
  manifest_["format"] = "heliograph-run";
  manifest_["format_version"] = 1;
  manifest_["status"] = "running";
  manifest_["started"] = utc_now();
  write_manifest();
  begun_ = true;
}

void RunDirectory::resume(std::span<const EpochReport> reports) {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const EpochReport& report : reports) text += epoch_to_json(report).dump() + '\n';
  // Lines that agree are not rewritten, so that readers find them at every moment.
  const fs::path path = path_ / kMetricsFile;
  std::string old;
  {
    const auto file = MappedFile::open(path);
    old.assign(reinterpret_cast<const char*>(file->bytes().data()),
               std::min(file->bytes().size(), text.size()));
  }
  const auto common = std::mismatch(old.begin(), old.end(), text.begin()).second - text.begin();
  std::size_t kept = static_cast<std::size_t>(common);
  while (kept > 0 && text[kept - 1] != '\n') --kept;
  if (::ftruncate(metrics_, static_cast<off_t>(kept)) != 0)
    fail_run("cannot cut back", path, errno);
  if (kept < text.size()) {
    text.pop_back();  // write_line adds it
    write_line(metrics_, text.substr(kept), path);
  }
  epochs_ = static_cast<int>(reports.size());
  manifest_["resumed_after_epochs"] = epochs_;
  begin();
}

RunDirectory::~RunDirectory() { ::close(metrics_); }

void RunDirectory::write_manifest() {
  write_text_file(
      path_ / kRunJson,
      manifest_.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

void RunDirectory::append(const EpochReport& report) {
  const std::lock_guard lock(mutex_);
  write_line(metrics_, epoch_to_json(report).dump(), path_ / kMetricsFile);
  ++epochs_;
}

void RunDirectory::write_predictions(const TrainResult& result) {
  const std::lock_guard lock(mutex_);
  heliograph::write_predictions(path_, result.predictions, result.prediction_cols, result.scores);
}

void RunDirectory::finish(const std::string& status, const nlohmann::ordered_json& members) {
  const std::lock_guard lock(mutex_);
  finish_locked(status, members);
}

void RunDirectory::finish_locked(const std::string& status, const nlohmann::ordered_json& members) {
  if (finished_ || !begun_) return;
  manifest_["status"] = status;
  manifest_["finished"] = utc_now();
  manifest_["epochs_written"] = epochs_;
  manifest_.update(members);
  write_manifest();
  finished_ = true;
}

void RunDirectory::remove_partial_files() {
  const std::string mark = fmt::format(".partial-{}-", ::getpid());
  for (const auto& entry : fs::directory_iterator(path_)) {
    if (entry.path().filename().string().find(mark) == std::string::npos) continue;
    std::error_code ignored;
    fs::remove(entry.path(), ignored);
  }
}

void RunDirectory::abandon(const nlohmann::ordered_json& members,
                           double patience_seconds) noexcept {
  try {
    const std::unique_lock lock(mutex_, std::chrono::duration<double>(patience_seconds));
    if (lock.owns_lock()) finish_locked("interrupted", members);
    remove_partial_files();
  } catch (...) {
    // The process ends anyway. metrics.jsonl is whole, and run.json says "running".
  }
}

}  // namespace heliograph
