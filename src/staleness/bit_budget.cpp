#include "staleness/bit_budget.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/throw_error.hpp"

namespace heliograph {

std::optional<BitBudget> parse_bit_budget(const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (text == "auto") return BitBudget{0, 0, text};
  const auto refuse = [&]() {
    throw_error(
        ErrorCode::usage,
        "--bits {}: give 1, 2, 4, 8, 16, 32 or auto; auto:B with B from 1 to {} bits a value "
        "in the mean, such as auto:1.5; or auto:SIZE with the bytes of an epoch, such as "
        "auto:20MB",
        text, kMostChosenBits);
  };
  const std::string prefix = "auto:";
  if (!text.starts_with(prefix)) refuse();
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + prefix.size(), end, number);
  if (error != std::errc()) refuse();
  const std::string unit(rest, end);
  if (unit.empty() && number >= 1 && number <= kMostChosenBits) return BitBudget{number, 0, text};
  constexpr std::array<std::pair<const char*, double>, 3> units{
      {{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}}};
  for (const auto& [name, bytes] : units) {
    const double all = number * bytes;
    if (unit == name && all >= 1 && all <= 1e15) return BitBudget{0, std::llround(all), text};
  }
  refuse();
  return std::nullopt;
}

}  // namespace heliograph
