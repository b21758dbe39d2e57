// heliograph_bench [--rows=N] [--outputs=N] [--degree=N] [--width=N] [--threads=N] [--graph=PATH]
// [--simd=NAME] [flags of Google Benchmark]
//
// Micro-benchmarks of the CPU's kernels. --simd selects an instruction set, such as AVX2.

#include <benchmark/benchmark.h>
#include <hwy/targets.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "take_value.hpp"
#include "workload.hpp"

namespace heliograph::bench {
void register_aggregate();
void register_attention();
void register_codec();
void register_gemm();
void register_order();
void register_rows();
}  // namespace heliograph::bench

namespace {

using heliograph::bench::take_value;

bool limit_simd(const std::string& name) {
  for (std::int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1) {
    const std::int64_t target = left & -left;
    if (name != hwy::TargetName(target)) continue;
    hwy::SetSupportedTargetsForTest(target);
    return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  auto& sizes = heliograph::bench::sizes();
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    std::string value;
    if (take_value(argv[i], "rows", value)) {
      sizes.rows = std::atoll(value.c_str());
    } else if (take_value(argv[i], "outputs", value)) {
      sizes.outputs = std::atoll(value.c_str());
    } else if (take_value(argv[i], "degree", value)) {
      sizes.degree = std::atoll(value.c_str());
    } else if (take_value(argv[i], "width", value)) {
      sizes.width = std::atoll(value.c_str());
    } else if (take_value(argv[i], "threads", value)) {
      sizes.threads = std::atoi(value.c_str());
    } else if (take_value(argv[i], "graph", value)) {
      sizes.graph = value;
    } else if (take_value(argv[i], "simd", value)) {
      if (!limit_simd(value)) {
        std::fprintf(stderr, "--simd %s: not an instruction set of this machine\n", value.c_str());
        return 2;
      }
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  if (sizes.outputs == 0) sizes.outputs = sizes.rows;
  if (sizes.rows < 1 || sizes.outputs < 1 || sizes.degree < 1 || sizes.width < 1 ||
      sizes.threads < 1) {
    std::fprintf(stderr, "--rows, --outputs, --degree, --width and --threads must be positive\n");
    return 2;
  }
  heliograph::bench::register_aggregate();
  heliograph::bench::register_attention();
  heliograph::bench::register_codec();
  heliograph::bench::register_gemm();
  heliograph::bench::register_order();
  heliograph::bench::register_rows();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::AddCustomContext("rows", std::to_string(sizes.rows));
  benchmark::AddCustomContext("outputs", std::to_string(sizes.outputs));
  benchmark::AddCustomContext("degree", std::to_string(sizes.degree));
  benchmark::AddCustomContext("width", std::to_string(sizes.width));
  benchmark::AddCustomContext("threads", std::to_string(sizes.threads));
  const std::int64_t targets = hwy::SupportedTargets();
  benchmark::AddCustomContext("simd", hwy::TargetName(targets & -targets));
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
