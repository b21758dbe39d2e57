#include "device/results.hpp"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string_view>

namespace heliograph::bench {
namespace {

double quantity_a_second(const std::vector<Result>& results, std::string_view name,
                         double Work::*quantity) {
  const auto found =
      std::find_if(results.begin(), results.end(), [&](const Result& r) { return r.name == name; });
  return found == results.end() ? 0 : found->work.*quantity / found->seconds;
}

// The rates to which kernels are compared; 0 if not measured.
double copy_rate(const std::vector<Result>& results) {
  return quantity_a_second(results, "copy", &Work::once);
}
double gemm_rate(const std::vector<Result>& results) {
  return quantity_a_second(results, "gemm/large", &Work::flops);
}

}  // namespace

void print(const std::vector<Result>& results) {
  const double copy = copy_rate(results), gemm = gemm_rate(results);
  std::printf("%-34s %10s %8s %9s %8s %9s\n", "kernel", "us", "GB/s", "of copy", "TFLOP/s",
              "of GEMM");
  for (const Result& r : results) {
    const double bytes = r.work.once / r.seconds;
    const double flops = r.work.flops / r.seconds;
    std::printf("%-34s %10.1f %8.0f %8.1f%% %8.2f %8.1f%%\n", r.name.c_str(), r.seconds * 1e6,
                bytes / 1e9, 100 * bytes / copy, flops / 1e12, 100 * flops / gemm);
  }
}

void write_json(const std::vector<Result>& results, const Sizes& sizes, const std::string& path) {
  const std::string partial = path + ".partial";
  std::FILE* json = std::fopen(partial.c_str(), "w");
  if (json == nullptr) throw std::runtime_error(partial + " cannot be written");
  std::fprintf(json,
               "{\"rows\": %lld, \"outputs\": %lld, \"copy_bytes_per_second\": %.6g, "
               "\"gemm_flops\": %.6g, \"kernels\": [",
               static_cast<long long>(sizes.rows), static_cast<long long>(sizes.outputs),
               copy_rate(results), gemm_rate(results));
  const char* comma = "";
  for (const Result& r : results) {
    std::fprintf(json,
                 "%s\n  {\"name\": \"%s\", \"seconds\": %.6g, \"subtracted\": %.6g, "
                 "\"bytes_once\": %.6g, \"bytes_gathered\": %.6g, \"bytes_source\": %.6g, "
                 "\"flops\": %.6g, \"repeats\": %s}",
                 comma, r.name.c_str(), r.seconds, r.subtracted, r.work.once, r.work.gathered,
                 r.work.source, r.work.flops,
                 !r.repeats   ? "null"
                 : *r.repeats ? "true"
                              : "false");
    comma = ",";
  }
  std::fprintf(json, "\n]}\n");
  const bool written = std::ferror(json) == 0;
  if (std::fclose(json) != 0 || !written || std::rename(partial.c_str(), path.c_str()) != 0) {
    throw std::runtime_error(path + " cannot be written");
  }
}

}  // namespace heliograph::bench
