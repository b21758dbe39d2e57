#include "core/throw_error.hpp"

namespace heliograph {
namespace {

bool keeps_flags = false;

bool begins_word(std::string_view sentence, std::size_t i) {
  return i == 0 || std::string_view(" (\"'").find(sentence[i - 1]) != std::string_view::npos;
}

/// Whether "--" is followed by a name or by the place of one.
bool precedes_name(std::string_view sentence, std::size_t i) {
  const char next = i + 2 < sentence.size() ? sentence[i + 2] : ' ';
  return (next >= 'a' && next <= 'z') || next == '{';
}

}  // namespace

void spell_options_as_flags() noexcept { keeps_flags = true; }

std::string reason_of(const std::exception& error) {
  const std::string_view what = error.what();
  const std::size_t end = what.starts_with("[json.exception.") ? what.find("] ") : what.npos;
  return std::string(end == what.npos ? what : what.substr(end + 2));
}

std::string spell_options(std::string_view sentence) {
  if (keeps_flags) return std::string(sentence);
  std::string spelled;
  spelled.reserve(sentence.size());
  for (std::size_t i = 0; i < sentence.size(); ++i) {
    const bool flag = sentence.substr(i).starts_with("--") && begins_word(sentence, i) &&
                      precedes_name(sentence, i);
    if (flag) {
      ++i;
    } else {
      spelled += sentence[i];
    }
  }
  return spelled;
}

}  // namespace heliograph
