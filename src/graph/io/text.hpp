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

/// Makes a message that quotes a file fit for a terminal: replaces control characters and cuts it
/// after 300 bytes, since a "line" of a binary file may be very long.
inline std::string legible(std::string_view sentence) {
  constexpr std::size_t kMost = 300;
  std::string out(sentence.substr(0, kMost));
  if (sentence.size() > kMost) out += "...";
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '\x7f') c = '?';
  }
  return out;
}

/// Reads the lines of a mapped text file without line ends (\n or \r\n) and byte order mark.
class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& path)
      : name_(path.string()), file_(MappedFile::open(path)), rest_(file_->text()) {
    if (rest_.starts_with("\xef\xbb\xbf")) rest_.remove_prefix(3);
  }

  /// Sets `line` to the next line, which is valid as long as the reader; false at the end.
  bool next(std::string_view& line) {
    if (rest_.empty()) return false;
    const std::size_t end = rest_.find('\n');
    line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number_;
    return true;
  }

  /// The number of the line that `next` has read last, counted from 1.
  std::int64_t number() const { return number_; }

  /// Throws Error(bad_input) that names the file and the line that `next` has read last.
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<const Args&...> sentence, const Args&... args) const {
    throw_error(ErrorCode::bad_input, "{}: {}", where(), legible(fmt::format(sentence, args...)));
  }

  /// The file and the line, for messages.
  std::string where() const { return fmt::format("{}, line {}", name_, number_); }

 private:
  std::string name_;
  std::shared_ptr<const MappedFile> file_;
  std::string_view rest_;
  std::int64_t number_ = 0;
};

/// The text without tabs and blanks at both ends.
inline std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Removes the first word from `text` and returns it; an empty word at the end. Tabs and blanks
/// separate words.
inline std::string_view take_word(std::string_view& text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return text = {};
  const std::size_t end = text.find_first_of(" \t", first);
  const std::string_view word = text.substr(first, end - first);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end);
  return word;
}

/// The whole text as a number, which may start with +. Nothing if the text is not a number or the
/// number does not fit into T.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  return parse_plain_number<T>(text);
}

}  // namespace heliograph
