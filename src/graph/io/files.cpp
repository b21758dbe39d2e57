#include "graph/io/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include "core/throw_error.hpp"

namespace heliograph {
namespace {

/// The temporary files and directories of this process, and what has been made of earlier ones.
struct {
  std::timed_mutex mutex;  ///< Held while one is made, published or removed.
  std::set<std::filesystem::path> paths;
  std::set<std::filesystem::path> published;
} unpublished;

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

[[noreturn]] void throw_file_error(ErrorCode code, const char* what,
                                   const std::filesystem::path& path, int error) {
  throw_error(code, "{} {}: {}", what, path.string(), std::generic_category().message(error));
}

/// A path in the same directory that no other process uses.
std::filesystem::path temporary_sibling(const std::filesystem::path& path) {
  static std::atomic<unsigned> counter{0};
  std::filesystem::path whole = path;
  if (!whole.has_filename()) whole = whole.parent_path();
  const std::string name =
      fmt::format(".{}.partial-{}-{}", whole.filename().string(), ::getpid(), counter++);
  return whole.parent_path() / name;
}

/// Removes what was written under a temporary name, also by libraries, which append to it.
void remove_temporary(const std::filesystem::path& path) {
  std::error_code error;
  do {
    std::filesystem::remove_all(path, error);
  } while (error == std::errc::directory_not_empty);  // Another thread has just made a file.
  const std::string name = path.filename().string() + '.';
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (!entry.path().filename().string().starts_with(name)) continue;
    std::filesystem::remove(entry.path(), error);
  }
}

}  // namespace

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::none) {
    throw_file_error(ErrorCode::bad_input, "cannot read", path, error.value());
  }
  return std::filesystem::exists(status);
}

RegularFile open_regular(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a pipe waits for a writer that may never come.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (!file.open() || ::fstat(file.get(), &status) != 0) {
    throw_file_error(ErrorCode::bad_input, "cannot read", path, errno);
  }
  if (!S_ISREG(status.st_mode)) {
    throw_error(ErrorCode::bad_input, "{} is not a regular file", path.string());
  }
  return {std::move(file), static_cast<std::size_t>(status.st_size)};
}

RunningHash::RunningHash(std::uint64_t seed) : state_(XXH64_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH64_reset(state_.get(), seed);
}

void RunningHash::Free::operator()(XXH64_state_t* state) const noexcept { XXH64_freeState(state); }

void RunningHash::add(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH64_update(state_.get(), bytes.data(), bytes.size());
}

std::uint64_t RunningHash::value() const { return XXH64_digest(state_.get()); }

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const auto [file, size] = open_regular(path);
  std::span<const std::byte> bytes;
  if (size > 0) {
    void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (address == MAP_FAILED) throw_file_error(ErrorCode::resource, "cannot map", path, errno);
    bytes = {static_cast<const std::byte*>(address), size};
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(bytes));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

ScratchBytes::ScratchBytes(std::size_t size) {
  const char* const named = std::getenv("TMPDIR");
  const std::filesystem::path folder = named != nullptr ? named : "/var/tmp";
  std::string path = (folder / "heliograph-XXXXXX").string();
  const Descriptor file(::mkostemp(path.data(), O_CLOEXEC));
  if (!file.open()) throw_file_error(ErrorCode::resource, "cannot create a file in", folder, errno);
  ::unlink(path.c_str());
  // Room is reserved first, since a full disk would end a write to mapped bytes with a signal.
  if (const int error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(size)); error != 0) {
    throw_error(ErrorCode::resource,
                "{} has no room for {} bytes: {} (TMPDIR names another folder)", folder.string(),
                size, std::generic_category().message(error));
  }
  void* const address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) throw_file_error(ErrorCode::resource, "cannot map", folder, errno);
  bytes_ = {static_cast<std::byte*>(address), size};
}

ScratchBytes::~ScratchBytes() { ::munmap(bytes_.data(), bytes_.size()); }

FileWriter::FileWriter(std::filesystem::path path)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (!descriptor_.open()) {
    const bool full = errno == ENOSPC || errno == EDQUOT || errno == EMFILE || errno == ENFILE;
    throw_file_error(full ? ErrorCode::resource : ErrorCode::usage, "cannot create", path_, errno);
  }
  buffer_.reserve(kBufferBytes);
}

void FileWriter::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  hash_.add(bytes);
  size_ += bytes.size();
  while (!bytes.empty()) {
    const std::size_t taken = std::min(bytes.size(), kBufferBytes - buffer_.size());
    buffer_.insert(buffer_.end(), bytes.begin(),
                   bytes.begin() + static_cast<std::ptrdiff_t>(taken));
    bytes = bytes.subspan(taken);
    if (buffer_.size() == kBufferBytes) flush();
  }
}

void FileWriter::flush() {
  std::size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t written =
        ::write(descriptor_.get(), buffer_.data() + done, buffer_.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_file_error(ErrorCode::resource, "cannot write", path_, errno);
    done += static_cast<std::size_t>(written);
  }
  buffer_.clear();
}

void FileWriter::close() {
  flush();
  // EINVAL means that the file is a device that cannot sync; it has taken the bytes.
  if (::fsync(descriptor_.get()) != 0 && errno != EINVAL) {
    throw_file_error(ErrorCode::resource, "cannot write", path_, errno);
  }
  if (::close(descriptor_.release()) != 0)
    throw_file_error(ErrorCode::resource, "cannot write", path_, errno);
}

FileReader::FileReader(std::filesystem::path path) : path_(std::move(path)) {
  auto [file, size] = open_regular(path_);
  descriptor_ = std::move(file);
  size_ = size;
}

void FileReader::read(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    // The pieces are small enough to be in the second-level cache when they are hashed.
    const std::size_t piece = std::min(bytes.size(), kBufferBytes / 4);
    const ssize_t got = ::read(descriptor_.get(), bytes.data(), piece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_file_error(ErrorCode::bad_input, "cannot read", path_, errno);
    if (got == 0) {
      throw_error(ErrorCode::bad_input, "{} is damaged: it ends too early", path_.string());
    }
    const auto count = static_cast<std::size_t>(got);
    hash_.add(bytes.first(count));
    bytes = bytes.subspan(count);
  }
}

void sync_directory(const std::filesystem::path& path) noexcept {
  const Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.open()) ::fsync(directory.get());
}

void sync_file(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open() || ::fsync(file.get()) != 0) {
    throw_file_error(ErrorCode::resource, "cannot write", path, errno);
  }
}

namespace {

std::filesystem::path parent_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

void rename_unsynced(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    const int error = errno;
    const bool changed = error == ENOENT || error == ENOTEMPTY || error == EEXIST;
    throw_error(
        ErrorCode::resource, "cannot rename {} to {}: {}{}", from.string(), to.string(),
        std::generic_category().message(error),
        changed ? " (another process may be writing there; write one after the other)" : "");
  }
}

}  // namespace

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to) {
  rename_unsynced(from, to);
  sync_directory(parent_of(to));
}

TemporaryPath::TemporaryPath(std::filesystem::path target)
    : target_(std::move(target)), temporary_(temporary_sibling(target_)) {
  std::error_code ignored;
  if (std::filesystem::is_other(target_, ignored)) {
    throw_error(ErrorCode::usage, "{} is a device, pipe or socket: it is not replaced",
                target_.string());
  }
  const std::lock_guard lock(unpublished.mutex);
  unpublished.paths.insert(temporary_);
}

TemporaryPath::~TemporaryPath() {
  const std::lock_guard lock(unpublished.mutex);
  std::error_code ignored;
  if (unpublished.paths.erase(temporary_) > 0) std::filesystem::remove_all(temporary_, ignored);
}

void TemporaryPath::publish() {
  std::unique_lock lock(unpublished.mutex);
  rename_unsynced(temporary_, target_);
  unpublished.paths.erase(temporary_);
  unpublished.published.insert(target_);
  lock.unlock();
  sync_directory(parent_of(target_));
}

NewDirectory::NewDirectory(std::filesystem::path target) : temporary_(std::move(target)) {
  const std::lock_guard lock(unpublished.mutex);
  std::error_code error;
  std::filesystem::create_directories(temporary(), error);
  if (error) {
    const bool full = error.value() == ENOSPC || error.value() == EDQUOT;
    throw_file_error(full ? ErrorCode::resource : ErrorCode::usage, "cannot create", temporary(),
                     error.value());
  }
}

void NewDirectory::publish() {
  const std::lock_guard lock(unpublished.mutex);
  sync_directory(temporary());
  std::error_code error;
  const std::filesystem::path& target = temporary_.target();
  const std::filesystem::path old = temporary_sibling(target);
  // rename(2) itself replaces an empty directory.
  const bool replaces =
      std::filesystem::exists(target, error) && !std::filesystem::is_empty(target, error);
  if (replaces) rename_path(target, old);
  try {
    rename_path(temporary(), target);
  } catch (...) {
    if (!replaces) throw;
    std::filesystem::rename(old, target, error);
    std::error_code ignored;
    // If it cannot return because another process has made the target, that one is newer.
    if (error && std::filesystem::exists(target, ignored)) {
      std::filesystem::remove_all(old, ignored);
    }
    throw;
  }
  unpublished.paths.erase(temporary());
  unpublished.published.insert(target);
  if (replaces) std::filesystem::remove_all(old, error);
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> head,
                           std::span<const std::byte> body) {
  TemporaryPath temporary(path);
  FileWriter file(temporary.path());
  file.write(head);
  file.write(body);
  file.close();
  temporary.publish();
}

std::vector<std::filesystem::path> abandon_unpublished(bool waits) noexcept {
  try {
    if (waits) {
      unpublished.mutex.lock();
    } else if (!unpublished.mutex.try_lock_for(std::chrono::milliseconds(100))) {
      return {};
    }
    for (const std::filesystem::path& path : unpublished.paths) remove_temporary(path);
    std::error_code ignored;
    // Files in a directory that was not published are gone.
    std::erase_if(unpublished.published,
                  [&](const auto& path) { return !std::filesystem::exists(path, ignored); });
    return {unpublished.published.begin(), unpublished.published.end()};
  } catch (...) {
    return {};  // The process ends anyway.
  }
}

std::unique_lock<std::timed_mutex> lock_publishing() { return std::unique_lock(unpublished.mutex); }

std::uint64_t xxh64(std::span<const std::byte> bytes) {
  return XXH64(bytes.data(), bytes.size(), 0);
}

std::string hex64(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace heliograph
