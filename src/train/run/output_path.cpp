#include "train/run/output_path.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <system_error>

#include "core/throw_error.hpp"
#include "graph/io/files.hpp"
#include "graph/io/npy.hpp"
#include "graph/io/readers.hpp"
#include "graph/partition/file.hpp"
#include "train/run/run_directory.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

/// Whether the file may be written. A device is written in place, a file is replaced in its
/// directory; which directory that is for a link depends on the kind of file.
bool permitted(const fs::path& path, const fs::path& parent) {
  std::error_code ignored;
  if (fs::is_symlink(path, ignored)) return true;
  const bool replaced = !fs::exists(path, ignored) || fs::is_regular_file(path, ignored);
  return replaced ? ::access(parent.c_str(), W_OK | X_OK) == 0 : ::access(path.c_str(), W_OK) == 0;
}

/// The bytes of a regular file; nothing for another file.
std::shared_ptr<const MappedFile> regular_file(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) ? MappedFile::open(file) : nullptr;
}

/// Whether a file has these bytes at `at`.
bool has_at(const fs::path& path, std::size_t at, std::string_view bytes) {
  const auto file = regular_file(path);
  return file && file->text().size() >= at && file->text().substr(at).starts_with(bytes);
}

/// Whether a file is an array of this type and number of axes.
bool is_npy(const fs::path& path, std::string_view dtype, std::size_t axes) {
  try {
    const NpyArray array = read_npy(path);
    return array.dtype == dtype && array.shape.size() == axes;
  } catch (const Error&) {
    return false;
  }
}

bool is_owner_array(const fs::path& path) { return is_npy(path, "<i4", 1); }
bool is_score_array(const fs::path& path) { return is_npy(path, "<f4", 1); }
bool is_row_array(const fs::path& path) { return is_npy(path, "<f4", 2); }
bool is_prediction_array(const fs::path& path) {
  return is_npy(path, "<i4", 1) || is_npy(path, "<i4", 2) || is_npy(path, "<f4", 1);
}
bool is_node_table(const fs::path& path) { return has_at(path, 0, "node,"); }
bool is_dgl_partition(const fs::path& path) { return has_at(path, 0, "{\"algo_name\""); }

bool is_owner_list(const fs::path& path) {
  const auto file = regular_file(path);
  return file && file->text().find_first_not_of("0123456789\n") == std::string_view::npos;
}

}  // namespace

const FileKind kPredictionArray{"an array of predictions", is_prediction_array, true};
const FileKind kScoreArray{"an array of scores", is_score_array, true};
const FileKind kRowArray{"an array of logits or embeddings", is_row_array, true};
const FileKind kNodeTable{"a table of nodes", is_node_table, true};

void require_writable(const OutputPath& output) {
  if (output.path.empty()) return;
  const auto refuse = [&](const std::string& why) {
    throw_error(ErrorCode::usage, "--{} {}{}", output.flag, output.path, why);
  };
  const fs::path path = output.path;
  const fs::path parent = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code ignored;
  if (!fs::is_directory(parent, ignored)) refuse(": " + parent.string() + " is not a directory");
  if (is_native(parent)) {
    refuse(" lies in a data set, shards or a checkpoint; choose another directory");
  }
  if (fs::is_directory(path, ignored)) refuse(" is a directory");
  if (!permitted(path, parent)) refuse(std::string(" cannot be written: ") + std::strerror(errno));
  const bool exists = fs::exists(path, ignored);
  if (exists && output.kind.may_be_data && holds_data(parent)) {
    refuse(" lies in a data set: it is not replaced; choose another name");
  }
  if (exists && !output.kind.matches(path)) {
    refuse(fmt::format(" exists and is not {}: it is not replaced", output.kind.name));
  }
  const bool in_run = fs::is_regular_file(parent / "run.json", ignored);
  if (in_run && RunDirectory::holds_as_own(parent, path)) {
    refuse(" has the name of a file of the run there; choose another");
  }
  if (exists && !output.overwrite) refuse(" exists; choose another name or add --overwrite");
}

void require_writable_partition(const char* flag, const std::string& path, bool overwrite) {
  if (path.empty()) return;
  const FileKind owner_list{"a list of owners", is_owner_list, true};
  const FileKind owner_array{"an array of owners", is_owner_array, true};
  const auto [form, owners] = partition_file(path);
  require_writable(
      {flag, owners.string(), form == PartitionForm::array ? owner_array : owner_list, overwrite});
  if (form != PartitionForm::dgl) return;
  require_writable({flag, path, {"a partition that was exported", is_dgl_partition}, overwrite});
}

}  // namespace heliograph
