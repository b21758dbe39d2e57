#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/throw_error.hpp"
#include "graph/io/text.hpp"

struct gzFile_s;

namespace heliograph {

/// Reads the lines of a text file, which may be compressed by gzip, without line ends (\n or \r\n)
/// and byte order mark. Keeps one line in memory. Members throw Error(bad_input) that names a file
/// that is missing, unreadable or damaged, or has a line of more than 64 MiB.
class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& path);

  /// Sets `line` to the next line, which is valid until the next call; false at the end.
  bool next(std::string_view& line);

  /// The number of the line that `next` has read last, counted from 1.
  std::int64_t number() const { return number_; }

  /// The most bytes of text that the file can hold.
  std::int64_t most_bytes() const { return most_bytes_; }

  /// Throws Error(bad_input) that names the file and the line that `next` has read last.
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<const Args&...> sentence, const Args&... args) const {
    throw_error(ErrorCode::bad_input, "{}: {}", where(), legible(fmt::format(sentence, args...)));
  }

  /// The file and the line, for messages.
  std::string where() const { return fmt::format("{}, line {}", name_, number_); }

 private:
  struct Close {
    void operator()(gzFile_s* file) const noexcept;
  };
  /// Moves what is left to the front of the buffer and reads more behind it.
  void refill();

  std::string name_;
  std::unique_ptr<gzFile_s, Close> file_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  ///< Of the bytes in the buffer that are not read yet.
  bool at_end_ = false;
  std::int64_t number_ = 0;
  std::int64_t most_bytes_ = 0;
};

}  // namespace heliograph
