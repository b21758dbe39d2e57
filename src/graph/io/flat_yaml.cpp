#include "graph/io/flat_yaml.hpp"

#include <optional>
#include <string_view>
#include <utility>

#include "graph/io/line_reader.hpp"
#include "graph/io/text.hpp"
#include "graph/refuse.hpp"

namespace heliograph {
namespace {

constexpr std::string_view kKeyCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

/// The text without a comment, which begins with # at the start or after a blank, and trimmed.
/// Quotes are not looked at, so the text must not begin with one.
std::string_view without_comment(std::string_view text) {
  for (std::size_t at = text.find('#'); at != std::string_view::npos; at = text.find('#', at + 1)) {
    if (at == 0 || text[at - 1] == ' ' || text[at - 1] == '\t') return trim(text.substr(0, at));
  }
  return trim(text);
}

/// Removes a scalar from the front of `text`. In a list [a, b], a plain one ends at a comma or at
/// the bracket. Nothing if the text begins with something else.
std::optional<std::string> take_scalar(std::string_view& text, bool in_brackets) {
  std::string scalar;
  const char quote = text.empty() ? 0 : text.front();
  if (quote == '\'' || quote == '"') {
    for (std::size_t i = 1; i < text.size(); ++i) {
      if (quote == '"' && text[i] == '\\') return {};
      if (text[i] != quote) {
        scalar += text[i];
      } else if (quote == '\'' && i + 1 < text.size() && text[i + 1] == quote) {
        scalar += text[i++];
      } else {
        text = trim(text.substr(i + 1));
        return scalar;
      }
    }
    return {};
  }
  constexpr std::string_view kIndicators = "-?:,[]{}#&*!|>%@`";
  const std::size_t end = in_brackets ? text.find_first_of(",]") : std::string_view::npos;
  const std::string_view plain = trim(text.substr(0, end));
  const bool dashed = plain.size() > 1 && plain[0] == '-' && plain[1] != ' ';
  if (plain.empty() || (kIndicators.find(plain[0]) != std::string_view::npos && !dashed)) return {};
  if (plain.find(": ") != std::string_view::npos || plain.ends_with(':') || plain == "null" ||
      plain == "~" || (in_brackets && plain.find_first_of("[{}") != std::string_view::npos)) {
    return {};
  }
  text.remove_prefix(end == std::string_view::npos ? text.size() : end);
  return std::string(plain);
}

/// The whole text as one scalar, which a comment may follow.
std::optional<std::string> only_scalar(std::string_view text) {
  const bool quoted = text.starts_with('\'') || text.starts_with('"');
  if (!quoted) text = without_comment(text);
  auto scalar = take_scalar(text, false);
  if (quoted && !without_comment(text).empty()) return {};
  return scalar;
}

/// The items of a list [a, b], the whole text.
std::optional<std::vector<std::string>> bracketed(std::string_view text) {
  std::vector<std::string> items;
  text = trim(text.substr(1));
  while (!text.starts_with(']')) {
    auto scalar = take_scalar(text, true);
    if (!scalar) return {};
    items.push_back(std::move(*scalar));
    if (text.starts_with(',')) {
      text = trim(text.substr(1));
    } else if (!text.starts_with(']')) {
      return {};
    }
  }
  if (!without_comment(text.substr(1)).empty()) return {};
  return items;
}

}  // namespace

FlatYaml::FlatYaml(std::filesystem::path file) : file_(std::move(file)) {
  LineReader lines(file_);
  Entry* last = nullptr;
  for (std::string_view line; lines.next(line);) {
    const std::string_view content = trim(line);
    if (content.empty() || content.front() == '#') continue;
    if (content == "---" && last == nullptr) continue;
    const bool begins = line.front() != ' ' && line.front() != '\t' && line.front() != '-';
    if (!begins) {
      if (last == nullptr) lines.refuse("'{}' belongs to no key", content);
      last->below.emplace_back(content);
      continue;
    }
    const std::size_t colon = line.find_first_not_of(kKeyCharacters);
    if (colon == 0 || colon == std::string_view::npos || line[colon] != ':' ||
        (colon + 1 < line.size() && line[colon + 1] != ' ')) {
      lines.refuse("'{}' is not of the form 'key: value'", content);
    }
    const std::string key(line.substr(0, colon));
    const auto [at, fresh] = entries_.try_emplace(key);
    if (!fresh) lines.refuse("gives {} twice", key);
    last = &at->second;
    *last = {lines.number(), std::string(trim(line.substr(colon + 1))), {}};
  }
}

const FlatYaml::Entry& FlatYaml::entry(const std::string& key) const {
  const auto at = entries_.find(key);
  if (at == entries_.end()) refuse(file_, "has no key {}", key);
  return at->second;
}

void FlatYaml::refuse_value(const std::string& key, const char* needed) const {
  const Entry& given = entry(key);
  refuse(file_,
         "line {}: the value of {} is not {}; of YAML, only 'key: value', lists and quotes "
         "without escapes are read",
         given.line, key, needed);
}

std::string FlatYaml::text(const std::string& key) const {
  const Entry& given = entry(key);
  const auto scalar = given.below.empty() ? only_scalar(given.value) : std::nullopt;
  if (!scalar) refuse_value(key, "a word");
  return *scalar;
}

std::vector<std::string> FlatYaml::list(const std::string& key) const {
  const Entry& given = entry(key);
  if (given.value.starts_with('[')) {
    std::string whole = given.value;
    for (const std::string& line : given.below) whole += ' ' + line;
    if (auto items = bracketed(whole)) return std::move(*items);
  } else if (without_comment(given.value).empty() && !given.below.empty()) {
    std::vector<std::string> items;
    for (const std::string& line : given.below) {
      auto item = line.starts_with("- ") ? only_scalar(trim(std::string_view(line).substr(2)))
                                         : std::nullopt;
      if (!item) refuse_value(key, "a list of words");
      items.push_back(std::move(*item));
    }
    return items;
  }
  refuse_value(key, "a list of words");
}

}  // namespace heliograph
