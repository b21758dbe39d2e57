#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/parse_number.hpp"
#include "core/throw_error.hpp"
#include "graph/io/files.hpp"

namespace heliograph {

/// A sentence that quotes a file, fit for a terminal: without control characters and, since a
/// "line" of a binary file may be all of it, of at most 300 bytes.
inline std::string legible(std::string_view sentence) {
  constexpr std::size_t kMost = 300;
  std::string out(sentence.substr(0, kMost));
  if (sentence.size() > kMost) out += "...";
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '\x7f') c = '?';
  }
  return out;
}

/// The lines of a mapped text file, without line ends (\n or \r\n) and without a byte order mark.
class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& path)
      : name_(path.string()), file_(MappedFile::open(path)) {
    const auto bytes = file_->bytes();
    rest_ = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    if (rest_.starts_with("\xef\xbb\xbf")) rest_.remove_prefix(3);
  }

  bool next(std::string_view& line) {
    if (rest_.empty()) return false;
    const std::size_t end = rest_.find('\n');
    line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number_;
    return true;
  }

  /// Of the line that `next` gave last, from 1.
  std::int64_t number() const { return number_; }

  /// Throws Error(bad_input) that names the file and that line.
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<const Args&...> sentence, const Args&... args) const {
    throw_error(ErrorCode::bad_input, "{}, line {}: {}", name_, number_,
                legible(fmt::format(sentence, args...)));
  }

 private:
  std::string name_;
  std::shared_ptr<const MappedFile> file_;
  std::string_view rest_;
  std::int64_t number_ = 0;
};

inline std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// The next word between blanks; empty at the end.
inline std::string_view take_word(std::string_view& text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return text = {};
  const std::size_t end = text.find_first_of(" \t", first);
  const std::string_view word = text.substr(first, end - first);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end);
  return word;
}

/// The whole text as a number, which may have a + in front, or nothing (also where the number does
/// not fit).
template <class T>
std::optional<T> parse_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  return parse_plain_number<T>(text);
}

}  // namespace heliograph
