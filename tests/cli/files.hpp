#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/files.hpp"

namespace heliograph::test {

inline nlohmann::json read_json(const std::filesystem::path& path) {
  return nlohmann::json::parse(read_text(path));
}

/// The lines of a .jsonl file. Throws if one is not JSON or the last is incomplete.
inline std::vector<nlohmann::json> read_lines(const std::filesystem::path& path) {
  const std::string text = read_text(path);
  if (!text.empty() && text.back() != '\n') throw std::runtime_error("the last line is torn");
  std::vector<nlohmann::json> lines;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = text.find('\n', begin);
    lines.push_back(nlohmann::json::parse(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return lines;
}

}  // namespace heliograph::test
