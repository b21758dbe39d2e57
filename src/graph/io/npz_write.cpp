#include <zip.h>

#include <cerrno>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/throw_error.hpp"
#include "graph/io/files.hpp"
#include "graph/io/npz.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

/// An archive that is being written. What was not closed is discarded.
class Writer {
 public:
  Writer(fs::path target, const fs::path& file) : target_(std::move(target)) {
    FileWriter(file).close();  // Says why a file cannot be created, which libzip does not.
    int code = 0;
    zip_ = zip_open(file.c_str(), ZIP_TRUNCATE, &code);
    if (zip_ == nullptr) fail(std::generic_category().message(errno));
  }
  ~Writer() {
    if (zip_ != nullptr) zip_discard(zip_);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// The bytes of `head` and `array` must stay until `close`.
  void add(const std::string& head, const NpyArray& array) {
    const auto piece = [](const void* bytes, std::size_t size) {
      return zip_buffer_fragment_t{static_cast<zip_uint8_t*>(const_cast<void*>(bytes)), size};
    };
    const zip_buffer_fragment_t pieces[] = {piece(head.data(), head.size()),
                                            piece(array.data.data(), array.data.size())};
    zip_source_t* const source = zip_source_buffer_fragment(zip_, pieces, 2, 0);
    if (source == nullptr) fail(zip_strerror(zip_));
    const zip_int64_t at =
        zip_file_add(zip_, (array.name + ".npy").c_str(), source, ZIP_FL_ENC_UTF_8);
    if (at < 0) {
      zip_source_free(source);
      fail(zip_strerror(zip_));
    }
    const auto index = static_cast<zip_uint64_t>(at);
    constexpr zip_uint16_t first_day = 1 << 5 | 1;  // 1 January 1980
    if (zip_set_file_compression(zip_, index, ZIP_CM_STORE, 0) != 0 ||
        zip_file_set_dostime(zip_, index, 0, first_day, 0) != 0) {
      fail(zip_strerror(zip_));
    }
  }

  void close() {
    if (zip_close(zip_) != 0) fail(zip_strerror(zip_));
    zip_ = nullptr;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw_error(ErrorCode::resource, "cannot write {}: {}", target_.string(), why);
  }

  fs::path target_;
  zip_t* zip_ = nullptr;
};

}  // namespace

void write_npz(const fs::path& path, std::span<const NpyArray> arrays) {
  TemporaryPath temporary(path);
  std::vector<std::string> heads;
  for (const NpyArray& array : arrays) heads.push_back(npy_header(array));
  Writer archive(path, temporary.path());
  for (std::size_t i = 0; i < arrays.size(); ++i) archive.add(heads[i], arrays[i]);
  archive.close();
  sync_file(temporary.path());
  temporary.publish();
}

}  // namespace heliograph
