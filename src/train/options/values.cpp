#include "train/options/values.hpp"

#include <fmt/format.h>

#include <string_view>

#include "core/throw_error.hpp"
#include "heliograph/error.hpp"
#include "train/options/not_built.hpp"

namespace heliograph {
namespace {

constexpr std::string_view kFilePrefix = "file:";
constexpr std::string_view kRandomPrefix = "random:";

}  // namespace

void refuse_not_built(const std::string& name) {
  for (const NotBuilt& entry : kNotBuilt) {
    if (name != entry.name) continue;
    throw_error(ErrorCode::usage, "{} ({}) is not built yet", name, entry.purpose);
  }
}

ModelKind parse_model(const std::string& text) {
  refuse_not_built("--model " + text);
  return parse_choice<ModelKind>("model", text);
}

void check_bits(const std::string& name, int bits) {
  for (const int width : {1, 2, 4, 8, 16, 32}) {
    if (bits == width) return;
  }
  throw_error(ErrorCode::usage, "--{} must be 1, 2, 4, 8, 16 or 32, not {}", name, bits);
}

int parse_bits(const std::string& name, const std::string& text) {
  const auto bits = parse_integer<int>(name, text);
  check_bits(name, bits);
  return bits;
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
      throw Error(ErrorCode::usage, "--partitioner file: needs a path after the colon");
    }
    options.partitioner = Partitioner::file;
    return;
  }
  options.partitioner = parse_choice<Partitioner>("partitioner", text, "file:PATH");
  options.file.clear();
}

std::string split_text(const TrainOptions& options) {
  if (!options.random_split) return std::to_string(options.split);
  return fmt::format("random:{}/{}/{}", options.train_share, options.validation_share,
                     options.test_share);
}

void set_split(TrainOptions& options, const std::string& text) {
  const auto refuse = [&text] {
    refuse_value("split", "a number from 0 or shares in per cent as in random:60/20/20", text);
  };
  if (!text.starts_with(kRandomPrefix)) {
    if (text.empty() || text.find_first_not_of("-0123456789") != std::string::npos) refuse();
    options.split = parse_integer<int>("split", text);
    options.random_split = false;
    return;
  }
  std::vector<double> shares;
  std::size_t begin = kRandomPrefix.size();
  while (true) {
    const std::size_t slash = text.find('/', begin);
    shares.push_back(parse_number("split", text.substr(begin, slash - begin)));
    if (slash == std::string::npos) break;
    begin = slash + 1;
  }
  if (shares.size() != 3) refuse();
  options.random_split = true;
  options.train_share = shares[0];
  options.validation_share = shares[1];
  options.test_share = shares[2];
}

}  // namespace heliograph
