// Writes how often a command has called each function of the emulated device.

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "runtime.hpp"

namespace {

void write_calls() {
  const char* path = std::getenv("HELIOGRAPH_EMULATED_CALLS");
  if (path == nullptr) return;
  const std::lock_guard guard(heliograph::cuda_emulation::runtime().lock);
  std::string name = path;
  name.append(".").append(std::to_string(getpid()));
  std::ofstream file(name);
  for (const auto& [function, count] : heliograph::cuda_emulation::runtime().calls) {
    file << function << ' ' << count << '\n';
  }
}

[[maybe_unused]] const bool registered = std::atexit(&write_calls) == 0;

}  // namespace
