#include "graph/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "heliograph/error.hpp"

namespace heliograph {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

[[noreturn]] void fail(ErrorCode code, const char* what, const std::filesystem::path& path,
                       int error) {
  throw Error(
      code, fmt::format("{} {}: {}", what, path.string(), std::generic_category().message(error)));
}

struct Descriptor {
  int value = -1;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a pipe waits for a writer that may never come.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.value < 0) fail(ErrorCode::bad_input, "cannot read", path, errno);
  struct stat status = {};
  if (::fstat(file.value, &status) != 0) fail(ErrorCode::bad_input, "cannot read", path, errno);
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::bad_input, fmt::format("{} is not a regular file", path.string()));
  }
  std::span<const std::byte> bytes;
  if (const auto size = static_cast<std::size_t>(status.st_size); size > 0) {
    void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value, 0);
    if (address == MAP_FAILED) fail(ErrorCode::resource, "cannot map", path, errno);
    bytes = {static_cast<const std::byte*>(address), size};
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(bytes));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

FileWriter::FileWriter(std::filesystem::path path) : path_(std::move(path)) {
  buffer_.reserve(kBufferBytes);
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    const bool full = errno == ENOSPC || errno == EDQUOT || errno == EMFILE || errno == ENFILE;
    fail(full ? ErrorCode::resource : ErrorCode::usage, "cannot create", path_, errno);
  }
  XXH64_state_t* const state = XXH64_createState();
  if (state == nullptr) {
    ::close(descriptor_);
    throw std::bad_alloc();
  }
  XXH64_reset(state, 0);
  hash_state_ = state;
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      buffer_(std::move(other.buffer_)),
      size_(other.size_),
      hash_state_(std::exchange(other.hash_state_, nullptr)) {}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
  XXH64_freeState(static_cast<XXH64_state_t*>(hash_state_));
}

void FileWriter::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  XXH64_update(static_cast<XXH64_state_t*>(hash_state_), bytes.data(), bytes.size());
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
    const ssize_t written = ::write(descriptor_, buffer_.data() + done, buffer_.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(ErrorCode::resource, "cannot write", path_, errno);
    done += static_cast<std::size_t>(written);
  }
  buffer_.clear();
}

void FileWriter::close() {
  flush();
  // A device that cannot sync (EINVAL) has taken the bytes all the same.
  if (::fsync(descriptor_) != 0 && errno != EINVAL) {
    fail(ErrorCode::resource, "cannot write", path_, errno);
  }
  if (::close(std::exchange(descriptor_, -1)) != 0) {
    fail(ErrorCode::resource, "cannot write", path_, errno);
  }
}

std::uint64_t FileWriter::hash() const {
  return XXH64_digest(static_cast<const XXH64_state_t*>(hash_state_));
}

FileReader::FileReader(std::filesystem::path path) : path_(std::move(path)) {
  Descriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.value < 0) fail(ErrorCode::bad_input, "cannot read", path_, errno);
  struct stat status = {};
  if (::fstat(file.value, &status) != 0) fail(ErrorCode::bad_input, "cannot read", path_, errno);
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::bad_input, fmt::format("{} is not a regular file", path_.string()));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
  XXH64_state_t* const state = XXH64_createState();
  if (state == nullptr) throw std::bad_alloc();
  XXH64_reset(state, 0);
  hash_state_ = state;
  descriptor_ = std::exchange(file.value, -1);
}

FileReader::~FileReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
  XXH64_freeState(static_cast<XXH64_state_t*>(hash_state_));
}

void FileReader::read(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    // Pieces that a second-level cache still holds when they are hashed.
    const std::size_t piece = std::min(bytes.size(), kBufferBytes / 4);
    const ssize_t got = ::read(descriptor_, bytes.data(), piece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ErrorCode::bad_input, "cannot read", path_, errno);
    if (got == 0) {
      throw Error(ErrorCode::bad_input,
                  fmt::format("{} is damaged: it ends too early", path_.string()));
    }
    const auto count = static_cast<std::size_t>(got);
    XXH64_update(static_cast<XXH64_state_t*>(hash_state_), bytes.data(), count);
    bytes = bytes.subspan(count);
  }
}

std::uint64_t FileReader::hash() const {
  return XXH64_digest(static_cast<const XXH64_state_t*>(hash_state_));
}

std::filesystem::path temporary_sibling(const std::filesystem::path& path) {
  static std::atomic<unsigned> counter{0};
  std::filesystem::path whole = path;
  if (!whole.has_filename()) whole = whole.parent_path();
  const std::string name =
      fmt::format(".{}.partial-{}-{}", whole.filename().string(), ::getpid(), counter++);
  return whole.parent_path() / name;
}

void sync_directory(const std::filesystem::path& path) noexcept {
  const Descriptor directory{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (directory.value >= 0) ::fsync(directory.value);
}

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    throw Error(ErrorCode::resource,
                fmt::format("cannot rename {} to {}: {}", from.string(), to.string(),
                            std::generic_category().message(errno)));
  }
  sync_directory(to.has_parent_path() ? to.parent_path() : std::filesystem::path("."));
}

NewDirectory::NewDirectory(std::filesystem::path target)
    : target_(std::move(target)), temporary_(temporary_sibling(target_)) {}

NewDirectory::~NewDirectory() {
  std::error_code ignored;
  if (!published_) std::filesystem::remove_all(temporary_, ignored);
}

void NewDirectory::publish() {
  sync_directory(temporary_);
  std::error_code error;
  const std::filesystem::path old = temporary_sibling(target_);
  const bool replaces = std::filesystem::exists(target_, error);
  if (replaces) rename_path(target_, old);
  try {
    rename_path(temporary_, target_);
  } catch (...) {
    if (replaces) std::filesystem::rename(old, target_, error);
    throw;
  }
  published_ = true;
  if (replaces) std::filesystem::remove_all(old, error);
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> head,
                           std::span<const std::byte> body) {
  const std::filesystem::path temporary = temporary_sibling(path);
  try {
    FileWriter file(temporary);
    file.write(head);
    file.write(body);
    file.close();
    rename_path(temporary, path);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw;
  }
}

std::uint64_t xxh64(std::span<const std::byte> bytes) {
  return XXH64(bytes.data(), bytes.size(), 0);
}

std::string hex64(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace heliograph
