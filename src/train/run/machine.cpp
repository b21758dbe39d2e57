#include "train/run/machine.hpp"

#include <sys/utsname.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "comm/mpi/transport.hpp"
#include "comm/nccl/transport.hpp"
#include "core/cpu/cpu_info.hpp"
#include "core/device.hpp"
#include "core/thread.hpp"
#include "train/process_memory.hpp"

namespace heliograph {
namespace {

std::string cpu_model(const std::string& otherwise) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t begin = line.find_first_not_of(" \t:", line.find(':'));
    if (begin != std::string::npos) return line.substr(begin);
  }
  return otherwise;
}

std::string built_text(const std::string& name, bool built) {
  return name + (built ? " built" : " not built");
}

}  // namespace

Machine describe_machine() {
  Machine machine;
  utsname names{};
  std::string architecture = "unknown";
  if (uname(&names) == 0) {
    architecture = names.machine;
    machine.system = std::string(names.sysname) + " " + names.release + " " + names.machine;
  }
  machine.cpu = cpu_model(architecture);
  machine.cores = usable_cores();
  machine.memory_bytes = physical_memory_bytes();
  machine.simd = simd_description();
  machine.devices = "cpu built; " + built_text("cuda", cuda_built());
  machine.transports = "threads built; " + built_text("mpi", mpi_built()) + "; tcp built; " +
                       built_text("nccl", nccl_built());
#ifdef __clang__
  machine.compiler = __VERSION__;
#else
  machine.compiler = "GCC " __VERSION__;
#endif
#ifdef __OPTIMIZE__
  machine.optimized = true;
#endif
  return machine;
}

nlohmann::ordered_json machine_to_json(const Machine& machine) {
  return {{"cpu", machine.cpu},
          {"cores", machine.cores},
          {"memory_bytes", machine.memory_bytes},
          {"system", machine.system},
          {"simd", machine.simd},
          {"compiler", machine.compiler},
          {"optimized", machine.optimized}};
}

}  // namespace heliograph
