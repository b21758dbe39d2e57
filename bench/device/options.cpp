#include "device/options.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "take_value.hpp"

namespace heliograph::bench {
namespace {

struct NamedSize {
  const char* name;
  std::int64_t Sizes::*field;
};
constexpr NamedSize kSizes[] = {{"rows", &Sizes::rows},
                                {"outputs", &Sizes::outputs},
                                {"copy-mib", &Sizes::copy_mib},
                                {"gemm", &Sizes::gemm},
                                {"gradient-rows", &Sizes::gradient_rows}};

/// Reads "N,N,...".
std::vector<std::int64_t> numbers(const std::string& text) {
  std::vector<std::int64_t> values;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');)
    values.push_back(std::atoll(word.c_str()));
  return values;
}

}  // namespace

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string value;
    const auto* size = std::find_if(std::begin(kSizes), std::end(kSizes), [&](const auto& named) {
      return take_value(argv[i], named.name, value);
    });
    if (size != std::end(kSizes)) {
      options.sizes.*size->field = std::atoll(value.c_str());
    } else if (take_value(argv[i], "degrees", value)) {
      options.sizes.degrees = numbers(value);
    } else if (take_value(argv[i], "widths", value)) {
      options.sizes.widths = numbers(value);
    } else if (take_value(argv[i], "seconds", value)) {
      options.sizes.seconds = std::atof(value.c_str());
    } else if (take_value(argv[i], "json", value)) {
      options.json = value;
    } else {
      throw std::invalid_argument(std::string(argv[i]) + " is not an option of this program");
    }
  }
  std::vector<std::int64_t> all = options.sizes.degrees;
  all.insert(all.end(), options.sizes.widths.begin(), options.sizes.widths.end());
  for (const NamedSize& named : kSizes) all.push_back(options.sizes.*named.field);
  if (options.sizes.degrees.empty() || options.sizes.widths.empty() ||
      *std::min_element(all.begin(), all.end()) <= 0 || !(options.sizes.seconds > 0)) {
    throw std::invalid_argument("sizes and seconds must be positive");
  }
  return options;
}

}  // namespace heliograph::bench
