#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace heliograph {

/// What a run ran on and what it was built with.
struct Machine {
  std::string cpu;                ///< Model name, or the architecture where none is told.
  int cores = 0;                  ///< Logical cores that this process may use.
  std::int64_t memory_bytes = 0;  ///< Physical memory.
  std::string system;             ///< Kernel name, release and architecture.
  std::string simd;               ///< `simd_description()`.
  std::string compiler;
  std::string devices;     ///< What is built and what is not, e.g. "cpu built; cuda not built".
  std::string transports;  ///< Likewise.
  bool optimized = false;  ///< The library was built with optimisation on.
};

Machine describe_machine();

nlohmann::ordered_json machine_to_json(const Machine& machine);

}  // namespace heliograph
