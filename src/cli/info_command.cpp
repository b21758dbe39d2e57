#include <cstdio>

#include "cli/command.hpp"
#include "cli/text.hpp"
#include "heliograph/version.hpp"
#include "train/run/machine.hpp"

namespace heliograph::cli {
namespace {

int print_info() {
  const Machine machine = describe_machine();
  const std::string text = two_columns({
      {"version", version()},
      {"build",
       machine.optimized ? HELIOGRAPH_BUILD_TYPE : HELIOGRAPH_BUILD_TYPE " (not optimised: slow)"},
      {"compiler", machine.compiler},
      {"cpu", machine.cpu},
      {"cores", std::to_string(machine.cores)},
      {"memory", human_bytes(static_cast<double>(machine.memory_bytes))},
      {"system", machine.system},
      {"simd", machine.simd},
      {"devices", machine.devices},
      {"transports", machine.transports},
  });
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace

Command info_command() {
  return {.name = "info",
          .description = "Print version, build, machine, SIMD targets, devices and transports.",
          .declare = [](CLI::App&) {},
          .run = [](const auto&) { return print_info(); }};
}

}  // namespace heliograph::cli
