#pragma once

#include <string>
#include <string_view>

namespace heliograph::bench {

/// Whether `argument` is `--name=VALUE`; if so, sets `value` to VALUE.
inline bool take_value(std::string_view argument, std::string_view name, std::string& value) {
  const std::string prefix = "--" + std::string(name) + "=";
  if (!argument.starts_with(prefix)) return false;
  value = argument.substr(prefix.size());
  return true;
}

}  // namespace heliograph::bench
