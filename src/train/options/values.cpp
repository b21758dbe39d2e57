#include "train/options/values.hpp"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "core/plural.hpp"
#include "core/throw_error.hpp"
#include "heliograph/error.hpp"
#include "train/options/not_built.hpp"

namespace heliograph {
namespace {

constexpr std::string_view kFilePrefix = "file:";

}  // namespace

void refuse_not_built(const std::string& name) {
  for (const NotBuilt& entry : kNotBuilt) {
    if (name != entry.name) continue;
    throw_error(ErrorCode::usage, "{} ({}) is not built yet", name, entry.purpose);
  }
}

void check_bits(const std::string& name, int bits, Bits fewest) {
  std::vector<std::string> widths;
  for (const int width : {1, 2, 4, 8, 16, 32}) {
    if (width < bit_count(fewest)) continue;
    if (bits == width) return;
    widths.push_back(std::to_string(width));
  }
  throw_error(ErrorCode::usage, "--{} must be {}, not {}", name, listed(widths), bits);
}

Bits parse_bits(const std::string& name, const std::string& text, Bits fewest) {
  const auto bits = parse_integer<int>(name, text);
  check_bits(name, bits, fewest);
  return Bits{bits};
}

std::string partitioner_text(const PartitionOptions& options) {
  if (options.partitioner == Partitioner::file) {
    return std::string(kFilePrefix) + options.file.string();
  }
  return choice_name(options.partitioner);
}

void set_partitioner(PartitionOptions& options, const std::string& text) {
  if (text.starts_with(kFilePrefix)) {
    options.file = text.substr(kFilePrefix.size());
    if (options.file.empty()) {
      throw_error(ErrorCode::usage, "--partitioner file: needs a path after the colon");
    }
    options.partitioner = Partitioner::file;
    return;
  }
  options.partitioner = parse_choice<Partitioner>("partitioner", text, "file:PATH");
  options.file.clear();
}

void set_split(SplitChoice& split, const std::string& text) {
  const auto refuse = [&text] {
    refuse_value("split",
                 "a number from 0, shares as in random:60/20/20, or numbers as in "
                 "per-class:20/500/1000",
                 text);
  };
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  if (colon == std::string::npos) {
    if (text.empty() || text.find_first_not_of("-0123456789") != std::string::npos) refuse();
    split = GivenSplit{parse_integer<int>("split", text)};
    return;
  }
  std::vector<std::string> parts{""};
  for (const char c : text.substr(colon + 1)) {
    if (c == '/') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (parts.size() != 3) refuse();
  const std::uint64_t* earlier = split_seed(split);
  const std::uint64_t seed = earlier != nullptr ? *earlier : 0;
  if (kind == "random") {
    const auto* random = std::get_if<RandomSplit>(&split);
    const auto share = [&](std::size_t i) { return parse_number("split", parts[i]); };
    split =
        RandomSplit{share(0), share(1), share(2), seed, random != nullptr && random->stratified};
  } else if (kind == "per-class") {
    const auto number = [&](std::size_t i) {
      return parse_integer<std::int64_t>("split", parts[i]);
    };
    split = PerClassSplit{number(0), number(1), number(2), seed};
  } else {
    refuse();
  }
}

const std::uint64_t* split_seed(const SplitChoice& split) {
  if (const auto* random = std::get_if<RandomSplit>(&split)) return &random->seed;
  if (const auto* each = std::get_if<PerClassSplit>(&split)) return &each->seed;
  return nullptr;
}

void set_split_seed(SplitChoice& split, std::uint64_t seed) {
  if (auto* random = std::get_if<RandomSplit>(&split)) {
    random->seed = seed;
  } else if (auto* each = std::get_if<PerClassSplit>(&split)) {
    each->seed = seed;
  } else {
    throw_error(ErrorCode::usage,
                "--split-seed needs --split random:T/V/E or --split per-class:N/V/T");
  }
}

}  // namespace heliograph
