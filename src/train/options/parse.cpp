#include "train/options/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/nearest_name.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

template <class Value>
bool parses_whole(const std::string& text, Value& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && stop == end;
}

/// What other programs call a choice, and its name here.
constexpr std::pair<const char*, const char*> kOtherNames[] = {
    {"gpu", "cuda"},      {"gloo", "tcp"},    {"float32", "fp32"},
    {"bfloat16", "bf16"}, {"micro-f1", "f1"}, {"f1-micro", "f1"}};

std::string nearest_choice(const std::string& text, const std::vector<std::string>& choices) {
  for (const auto& [other, choice] : kOtherNames) {
    if (text == other && std::ranges::find(choices, choice) != choices.end()) return choice;
  }
  // accuracy for acc, if no other choice begins like that.
  const auto begins = [&](const std::string& choice) {
    return text.size() > 1 && edit_distance(text, choice.substr(0, text.size())) == 0;
  };
  if (std::ranges::count_if(choices, begins) == 1) return *std::ranges::find_if(choices, begins);
  const std::string near = nearest_name(text, choices);
  if (!near.empty()) return near;
  const auto part = std::ranges::find_if(choices, [&](const std::string& choice) {
    return text.find(choice) != std::string::npos;  // sage in graphsage
  });
  return part == choices.end() ? std::string() : *part;
}

}  // namespace

void name_options_as_flags() noexcept { spell_options_as_flags(); }

std::int64_t parse_integer(const std::string& name, const std::string& text, std::int64_t lowest,
                           std::int64_t highest) {
  std::int64_t value = 0;
  if (!parses_whole(text, value)) refuse_value(name, "a whole number", text);
  if (value < lowest || value > highest) {
    refuse_value(name, fmt::format("a whole number from {} to {}", lowest, highest), text);
  }
  return value;
}

std::uint64_t parse_seed(const std::string& name, const std::string& text) {
  std::uint64_t value = 0;
  if (!parses_whole(text, value)) refuse_value(name, "a whole number from 0 to 2^64 - 1", text);
  return value;
}

double parse_number(const std::string& name, const std::string& text) {
  double value = 0;
  if (!parses_whole(text, value) || !std::isfinite(value))
    refuse_value(name, "a finite number", text);
  return value;
}

bool parse_toggle(const std::string& name, const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  refuse_value(name, "true or false", text);
}

void refuse_value(const std::string& name, const std::string& what, const std::string& text) {
  throw_error(ErrorCode::usage, "--{} must be {}, not \"{}\"", name, what, text);
}

void refuse_choice(const std::string& name, const std::string& text,
                   const std::vector<std::string>& choices) {
  const std::string list = listed(choices);
  const std::string near = nearest_choice(text, choices);
  throw_error(ErrorCode::usage, "--{} must be {}, not \"{}\"{}", name, list, text,
              near.empty() ? "" : "; the nearest is " + near);
}

std::string nearest_spelling(const std::string& name, const std::vector<std::string>& candidates) {
  return nearest_name(name, candidates);
}

double shortest_decimal(float value) { return std::stod(fmt::format("{}", value)); }

}  // namespace heliograph
