#include "graph/io/npz.hpp"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "graph/io/files.hpp"
#include "graph/refuse.hpp"

namespace heliograph {
namespace {

struct MemberFile {
  zip_file_t* file;
  ~MemberFile() {
    if (file != nullptr) zip_fclose(file);
  }
};

}  // namespace

struct NpzArchive::Handle {
  zip_t* zip = nullptr;
  ~Handle() {
    if (zip != nullptr) zip_discard(zip);
  }
};

NpzArchive::NpzArchive(const std::filesystem::path& path)
    : ArraySource(path.string()), handle_(std::make_unique<Handle>()) {
  if (!std::filesystem::is_regular_file(path)) refuse(where(), "is not a regular file");
  if (std::filesystem::file_size(path) == 0) refuse(where(), "is empty");
  int code = 0;
  zip_t* const zip = zip_open(path.c_str(), ZIP_RDONLY, &code);
  if (zip == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string what = zip_error_strerror(&error);
    zip_error_fini(&error);
    refuse(where(), "cannot be read as a .npz archive: {}", what);
  }
  handle_->zip = zip;
  for (zip_int64_t i = 0; i < zip_get_num_entries(zip, 0); ++i) {
    const char* name = zip_get_name(zip, static_cast<zip_uint64_t>(i), 0);
    const std::filesystem::path file(name != nullptr ? name : "");
    if (file.extension() == ".npy" &&
        !names_.insert(file.string().substr(0, file.string().size() - 4)).second) {
      refuse(where(), "has two members {}", file.string());
    }
  }
}

NpzArchive::~NpzArchive() = default;

NpyArray NpzArchive::load(const std::string& member) const {
  const std::string name = fmt::format("{}: member {}", where(), member);
  const zip_int64_t index = zip_name_locate(handle_->zip, (member + ".npy").c_str(), 0);
  if (index < 0) refuse(where(), "has no member {}", member);
  zip_stat_t status;
  const auto at = static_cast<zip_uint64_t>(index);
  if (zip_stat_index(handle_->zip, at, 0, &status) != 0 || (status.valid & ZIP_STAT_SIZE) == 0 ||
      (status.valid & ZIP_STAT_COMP_SIZE) == 0) {
    refuse(name, "its size is not known");
  }
  if (status.size / kMostInflation > status.comp_size + 1) {
    refuse(name, "its size is implausible");
  }
  const MemberFile opened{zip_fopen_index(handle_->zip, at, 0)};
  if (opened.file == nullptr) refuse(name, "{}", zip_strerror(handle_->zip));

  // A large member goes to a file, since it may exceed memory, and is often read only once.
  constexpr std::uint64_t kMostInMemory = std::uint64_t{1} << 28;
  std::span<std::byte> bytes;
  std::shared_ptr<const void> owner;
  if (status.size > kMostInMemory) {
    auto scratch = std::make_shared<ScratchBytes>(status.size);
    bytes = scratch->bytes();
    owner = std::move(scratch);
  } else {
    auto memory = std::make_shared<std::vector<std::byte>>(status.size);
    bytes = *memory;
    owner = std::move(memory);
  }
  std::uint64_t done = 0;
  while (done < status.size) {
    const std::uint64_t piece = std::min<std::uint64_t>(status.size - done, 1 << 24);
    const zip_int64_t got = zip_fread(opened.file, bytes.data() + done, piece);
    if (got <= 0) refuse(name, "{}", got < 0 ? zip_file_strerror(opened.file) : "is truncated");
    done += static_cast<std::uint64_t>(got);
  }
  // One more read reaches the end of the member, where libzip compares the checksum.
  std::byte beyond{};
  if (const zip_int64_t got = zip_fread(opened.file, &beyond, 1); got != 0) {
    refuse(name, "{}",
           got < 0 ? zip_file_strerror(opened.file) : "is longer than the archive says");
  }
  return parse_npy(bytes, std::move(owner), name);
}

}  // namespace heliograph
