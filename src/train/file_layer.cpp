#include "train/file_layer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "core/throw_error.hpp"
#include "graph/io/files.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_change(const char* what, const fs::path& path, int error) {
  throw_error(ErrorCode::resource, "{} {}: {}", what, path.string(),
              std::generic_category().message(error));
}

class DiskSink final : public FileSink {
 public:
  explicit DiskSink(const fs::path& path) : file_(path) {}
  void write(std::span<const std::byte> bytes) override { file_.write(bytes); }
  void close() override { file_.close(); }
  std::uint64_t size() const override { return file_.size(); }
  std::uint64_t hash() const override { return file_.hash(); }

 private:
  FileWriter file_;
};

class DiskFiles final : public FileLayer {
 public:
  void make_directories(const fs::path& path) override {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) fail_change("cannot create the directory", path, error.value());
  }

  std::unique_ptr<FileSink> create(const fs::path& path) override {
    return std::make_unique<DiskSink>(path);
  }

  void rename(const fs::path& from, const fs::path& to) override {
    if (::rename(from.c_str(), to.c_str()) == 0) return;
    const int error = errno;
    fail_change("cannot rename", from.string() + " to " + to.string(), error);
  }

  void sync_directory(const fs::path& path) override {
    const int directory = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) fail_change("cannot open the directory", path, errno);
    // EINVAL: the file system cannot sync directories, and keeps their entries durable itself.
    const int error = ::fsync(directory) == 0 || errno == EINVAL ? 0 : errno;
    ::close(directory);
    if (error != 0) fail_change("cannot flush the directory", path, error);
  }

  void remove(const fs::path& path) override {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) fail_change("cannot remove", path, error.value());
  }
};

}  // namespace

FileLayer& disk_files() {
  static DiskFiles files;
  return files;
}

void write_and_rename(const fs::path& path, FunctionRef<void(std::unique_ptr<FileSink>)> write) {
  TemporaryPath temporary(path);
  write(disk_files().create(temporary.path()));
  temporary.publish();
}

}  // namespace heliograph
