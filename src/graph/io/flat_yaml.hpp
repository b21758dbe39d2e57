#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace heliograph {

/// Reads the part of YAML in which small files of properties are written: a line `key: value` for
/// each key, where a value is one scalar, a list [a, b] or, in the lines below, a list with a dash
/// before each item. Scalars are plain or quoted, and without escapes. Values are interpreted only
/// when they are asked for. Members throw Error(bad_input) that names file, line and key.
class FlatYaml {
 public:
  /// Refuses text outside of a key and a key that is given twice.
  explicit FlatYaml(std::filesystem::path file);

  bool has(const std::string& key) const { return entries_.contains(key); }
  std::string text(const std::string& key) const;
  std::vector<std::string> list(const std::string& key) const;

 private:
  struct Entry {
    std::int64_t line = 0;
    std::string value;               ///< What follows the colon.
    std::vector<std::string> below;  ///< The lines that belong to the key, trimmed.
  };
  const Entry& entry(const std::string& key) const;
  [[noreturn]] void refuse_value(const std::string& key, const char* needed) const;

  std::filesystem::path file_;
  std::map<std::string, Entry> entries_;
};

}  // namespace heliograph
