#pragma once

#include <string>
#include <string_view>

namespace heliograph::bench {

/// True where `argument` is `--name=VALUE`; leaves VALUE in `value`.
inline bool take_value(std::string_view argument, std::string_view name, std::string& value) {
  const std::string prefix = "--" + std::string(name) + "=";
  if (!argument.starts_with(prefix)) return false;
  value = argument.substr(prefix.size());
  return true;
}

}  // namespace heliograph::bench
