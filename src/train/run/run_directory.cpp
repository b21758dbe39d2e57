#include "train/run/run_directory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "core/descriptor.hpp"
#include "core/throw_error.hpp"
#include "graph/io/files.hpp"
#include "graph/io/json.hpp"
#include "graph/io/readers.hpp"
#include "heliograph/checkpoint.hpp"
#include "heliograph/error.hpp"
#include "train/run/output_file.hpp"
#include "train/run/summary.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRunFormat = "heliograph-run";
constexpr const char* kRunJson = "run.json";
constexpr const char* kMetricsFile = "metrics.jsonl";
constexpr const char* kCheckpointsFolder = "checkpoints";
/// run.json of a run that replaces the others' files in its directory. As soon as it exists, the
/// directory is that run's.
constexpr const char* kNextRunJson = ".run.json.next";
/// What the end of a run leaves.
constexpr const char* kResultFiles[] = {kBestFile, kPredictionsFile, kScoresFile, kLogitsFile,
                                        kEmbeddingsFile};

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

/// Removes what an earlier run left, before the run of kNextRunJson. May be repeated.
void replace_run(const fs::path& path, int metrics) {
  if (::ftruncate(metrics, 0) != 0) fail_run("cannot empty", path / kMetricsFile, errno);
  for (const char* name : kResultFiles) remove_file(path / name);
  remove_checkpoints(RunDirectory::checkpoints(path));
  rename_path(path / kNextRunJson, path / kRunJson);
}

/// What run.json, or the file with its contents, holds. Discarded if that is no JSON.
nlohmann::json read_manifest(const fs::path& path) {
  std::ifstream file(path);
  return try_parse_json(file);
}

/// Throws Error(usage) if a name of a run's files is not that of a file, or `checkpoints` is one.
void require_names(const fs::path& path, const char* advice = "choose another directory") {
  const auto require = [&](const char* name, fs::file_type type, const char* what) {
    std::error_code error;
    const auto status = fs::status(path / name, error);
    if (!fs::exists(status) || status.type() == type) return;
    throw_error(ErrorCode::usage, "{} is not a {}, and a run there writes one of that name; {}",
                (path / name).string(), what, advice);
  };
  for (const char* name : kResultFiles) require(name, fs::file_type::regular, "file");
  for (const char* name : {kRunJson, kNextRunJson, kMetricsFile}) {
    require(name, fs::file_type::regular, "file");
  }
  require(kCheckpointsFolder, fs::file_type::directory, "directory");
}

/// Throws Error(bad_input) if `path` has a run.json that is a directory, a pipe or a broken link.
void require_run_json(const fs::path& path) {
  std::error_code error;
  const fs::path file = path / kRunJson;
  if (!fs::exists(fs::symlink_status(file, error)) || fs::is_regular_file(file, error)) return;
  throw_error(ErrorCode::bad_input, "{} is not a file, so the run's options cannot be read",
              file.string());
}

/// Whether `path` is the run.json of a run that has no result.
bool lacks_result(const fs::path& path) {
  const auto object = read_manifest(path);
  return object.is_object() && object.contains("result") && object.at("result").is_null();
}

/// Whether a folder of checkpoints holds more than an interrupted save leaves, whose name begins
/// with a dot, or is a link.
bool holds_checkpoints(const fs::path& folder) {
  std::error_code error;
  if (fs::is_symlink(folder, error)) return true;
  if (!fs::exists(folder, error)) return false;
  const fs::directory_iterator entries(folder, error);
  return error || std::any_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
           return !entry.path().filename().string().starts_with('.');
         });
}

/// A file that shows that `path` holds a run; null if none does. A run that failed before its first
/// epoch leaves run.json and no line of metrics.
const char* sign_of_run(const fs::path& path) {
  std::error_code error;
  for (const char* name : kResultFiles) {
    if (fs::exists(path / name, error)) return name;
  }
  if (holds_checkpoints(RunDirectory::checkpoints(path))) return kCheckpointsFolder;
  if (RunDirectory::has_epochs(path)) return kMetricsFile;
  const bool kept = fs::exists(path / kRunJson, error) && !lacks_result(path / kRunJson);
  return kept ? kRunJson : nullptr;
}

}  // namespace

bool RunDirectory::has_epochs(const fs::path& path, fs::file_time_type since) {
  std::error_code error;
  const auto bytes = fs::file_size(path / kMetricsFile, error);
  return !error && bytes > 0 && fs::last_write_time(path / kMetricsFile, error) >= since;
}

void RunDirectory::check(const fs::path& path, bool overwrite) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (error == std::errc::not_a_directory) {
    throw_error(ErrorCode::usage, "--out {} lies in what is not a directory; choose another",
                path.string());
  }
  if (!fs::exists(status)) return;
  if (!fs::is_directory(status)) {
    throw_error(ErrorCode::usage, "--out {} is not a directory", path.string());
  }
  require_no_data(path);
  require_names(path);
  const char* sign = overwrite ? nullptr : sign_of_run(path);
  if (sign == nullptr) return;
  throw_error(ErrorCode::usage,
              "--out {} already holds a run ({}); {}choose another directory or add --overwrite",
              path.string(), sign,
              newest_checkpoint(checkpoints(path)).empty() ? "" : "continue it with --resume, ");
}

void require_no_data(const fs::path& directory) {
  std::error_code ignored;
  if (!fs::is_directory(directory, ignored) || !holds_data(directory)) return;
  throw_error(ErrorCode::usage,
              "--out {} holds a data set, shards or a checkpoint; choose another directory",
              directory.string());
}

bool is_run_manifest(const nlohmann::json& object) {
  return object.is_object() && object.value("format", nlohmann::json()) == kRunFormat;
}

bool RunDirectory::holds_run(const fs::path& path) {
  if (!is_there(path / kRunJson) || !fs::is_regular_file(path / kRunJson)) return false;
  const auto object = read_manifest(path / kRunJson);
  return object.is_discarded() ? has_epochs(path) : is_run_manifest(object);
}

bool RunDirectory::holds_as_own(const fs::path& directory, const fs::path& file) {
  const auto real = [](const fs::path& path) {
    std::error_code ignored;
    return fs::weakly_canonical(fs::absolute(path), ignored);
  };
  const auto is_own = [run = real(directory)](const fs::path& path) {
    const fs::path inside = path.lexically_relative(run);
    if (inside.empty()) return false;
    if (inside == "." || *inside.begin() == kCheckpointsFolder) return true;
    const auto is = [&](const char* name) { return inside == name; };
    return is(kRunJson) || is(kNextRunJson) || is(kMetricsFile) ||
           std::ranges::any_of(kResultFiles, is);
  };
  // A file of the run may be a link to elsewhere.
  const fs::path named = fs::absolute(file);
  return is_own(real(file)) || is_own(real(named.parent_path()) / named.filename());
}

void RunDirectory::complete_replacement(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path / kNextRunJson, error)) return;
  require_names(path, "remove it");
  // Processes of one run may all come here, and the first one does the work.
  for (int tries = 1; fs::exists(path / kNextRunJson, error); ++tries) {
    try {
      const Descriptor metrics(open_metrics(path / kMetricsFile));
      if (!fs::exists(path / kNextRunJson, error)) return;
      if (!is_run_manifest(read_manifest(path / kNextRunJson))) {
        throw_error(ErrorCode::bad_input,
                    "{} is not the run.json of a run, so the run beside it stays as it is; remove "
                    "that file",
                    (path / kNextRunJson).string());
      }
      replace_run(path, metrics.get());
    } catch (const Error& failure) {
      if (failure.code() != ErrorCode::usage || tries == 20) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
}

fs::path RunDirectory::of(const fs::path& path) {
  fs::path named = fs::absolute(path).lexically_normal();
  if (!named.has_filename()) named = named.parent_path();
  const bool existed = is_there(named);
  fs::path run = named;
  // The weights in a checkpoint lie three levels down.
  for (int up = 0; up <= 3; ++up, run = run.parent_path()) {
    if (!holds_as_own(run, named)) continue;
    require_run_json(run);
    if (!holds_run(run)) continue;
    complete_replacement(run);
    if (!existed || is_there(named)) return run;
    throw_error(ErrorCode::bad_input,
                "{} belonged to a run that another one was replacing when its process died; the "
                "replacement is complete now, and it is gone",
                path.string());
  }
  return {};
}

RunDirectory::RunDirectory(fs::path path, bool overwrite, nlohmann::ordered_json manifest)
    : path_(std::move(path)), manifest_(std::move(manifest)) {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) fail_run("cannot create the directory", path_, error.value());
  complete_replacement(path_);
  require_names(path_);
  metrics_ = open_metrics(path_ / kMetricsFile);
  replaces_ = true;
  try {
    check(path_, overwrite);  // Under the lock, as another run may just have ended here.
    if (sign_of_run(path_) == nullptr) take_over();
  } catch (...) {
    ::close(metrics_);
    throw;
  }
}

RunDirectory::RunDirectory(fs::path path, Resumed, nlohmann::ordered_json manifest)
    : path_(std::move(path)), manifest_(std::move(manifest)) {
  require_names(path_);
  metrics_ = open_metrics(path_ / kMetricsFile);
}

/// Writes to the file `name` that the run is running.
void RunDirectory::begin(const char* name) {
  manifest_["format"] = kRunFormat;
  manifest_["format_version"] = 1;
  manifest_["status"] = "running";
  manifest_["started"] = utc_now();
  write_manifest(name);
}

void RunDirectory::take_over() {
  const std::lock_guard lock(mutex_);
  take_over_locked();
}

void RunDirectory::take_over_locked() {
  if (!replaces_) return;
  begin(kNextRunJson);
  replace_run(path_, metrics_);
  replaces_ = false;
  begun_ = true;
}

void RunDirectory::resume(std::span<const EpochReport> reports) {
  const std::lock_guard lock(mutex_);
  take_over_locked();
  std::string text;
  for (const EpochReport& report : reports) text += json_text(epoch_to_json(report)) + '\n';
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
  begin(kRunJson);
  begun_ = true;
}

RunDirectory::~RunDirectory() { ::close(metrics_); }

void RunDirectory::write_manifest(const char* name) {
  write_text_file(path_ / name, json_text(manifest_, 2) + "\n");
}

void RunDirectory::append(const EpochReport& report) {
  const std::lock_guard lock(mutex_);
  if (finished_) return;  // The process is about to end, and run.json has the number of lines.
  take_over_locked();
  write_line(metrics_, json_text(epoch_to_json(report)), path_ / kMetricsFile);
  ++epochs_;
}

void RunDirectory::write_outputs(const TrainResult& result, const BeforeFile& before_file) {
  // Without the lock, so that `abandon` need not wait for large files.
  std::set<std::string> written;
  const BeforeFile note = [&](const std::string& file) {
    written.insert(file);
    if (before_file) before_file(file);
  };
  if (result.model) {
    note((path_ / kBestFile).string());
    result.model->save(path_ / kBestFile);
  }
  heliograph::write_outputs(path_, result, note);
  for (const char* name : kResultFiles) {
    if (!written.contains((path_ / name).string())) remove_file(path_ / name);
  }
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
  write_manifest(kRunJson);
  finished_ = true;
}

void RunDirectory::abandon(const std::string& status, const nlohmann::ordered_json& members,
                           double patience_seconds) noexcept {
  try {
    const std::unique_lock lock(mutex_, std::chrono::duration<double>(patience_seconds));
    if (lock.owns_lock()) finish_locked(status, members);
  } catch (...) {
    // The process ends anyway. metrics.jsonl is whole, and run.json says "running".
  }
}

}  // namespace heliograph
