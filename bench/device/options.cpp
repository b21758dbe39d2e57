#include "device/options.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <stdexcept>

#include "take_value.hpp"

namespace heliograph::bench {
namespace {

struct NamedSize {
  const char* name;
  std::int64_t Sizes::*field;
};
constexpr NamedSize kSizes[] = {{"rows", &Sizes::rows},         {"outputs", &Sizes::outputs},
                                {"degree", &Sizes::degree},     {"width", &Sizes::width},
                                {"copy-mib", &Sizes::copy_mib}, {"gemm", &Sizes::gemm}};

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
    } else if (take_value(argv[i], "seconds", value)) {
      options.sizes.seconds = std::atof(value.c_str());
    } else if (take_value(argv[i], "json", value)) {
      options.json = value;
    } else {
      throw std::invalid_argument(std::string(argv[i]) + " is not an option of this program");
    }
  }
  const bool all_positive =
      std::all_of(std::begin(kSizes), std::end(kSizes),
                  [&](const auto& named) { return options.sizes.*named.field > 0; });
  if (!all_positive || !(options.sizes.seconds > 0)) {
    throw std::invalid_argument("sizes and seconds must be positive");
  }
  return options;
}

}  // namespace heliograph::bench
