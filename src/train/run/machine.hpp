#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace heliograph {

/// The machine of a run and the build of the library.
struct Machine {
  std::string cpu;                ///< Model name, or the architecture if the system names none.
  int cores = 0;                  ///< Logical cores that this process may use.
  std::int64_t memory_bytes = 0;  ///< Physical memory.
  std::string system;             ///< Kernel name, release and architecture.
  std::string simd;               ///< `simd_description()`.
  std::string compiler;
  std::string devices;     ///< Which are built, such as "cpu built; cuda not built".
  std::string transports;  ///< Which are built, in the same form.
  bool optimized = false;  ///< Whether the library was built with optimisation.
};

Machine describe_machine();

nlohmann::ordered_json machine_to_json(const Machine& machine);

}  // namespace heliograph
