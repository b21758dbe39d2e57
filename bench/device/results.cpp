#include "device/results.hpp"

#include <algorithm>
#include <string_view>

namespace heliograph::bench {

void print(const std::vector<Result>& results, const Sizes& sizes, std::FILE* json) {
  const auto rate_of = [&](std::string_view name, auto quantity) {
    const auto found = std::find_if(results.begin(), results.end(),
                                    [&](const Result& r) { return r.name == name; });
    return quantity(found->work) / found->seconds;
  };
  const double copy = rate_of("copy", [](const Work& w) { return w.once; });
  const double gemm = rate_of("gemm/large", [](const Work& w) { return w.flops; });
  std::printf("%-26s %10s %8s %9s %8s %9s\n", "kernel", "us", "GB/s", "of copy", "TFLOP/s",
              "of GEMM");
  if (json != nullptr) {
    std::fprintf(json,
                 "{\"rows\": %lld, \"outputs\": %lld, \"degree\": %lld, \"width\": %lld, "
                 "\"copy_bytes_per_second\": %.6g, \"gemm_flops\": %.6g, \"kernels\": [",
                 static_cast<long long>(sizes.rows), static_cast<long long>(sizes.outputs),
                 static_cast<long long>(sizes.degree), static_cast<long long>(sizes.width), copy,
                 gemm);
  }
  const char* comma = "";
  for (const Result& r : results) {
    const double bytes = r.work.once / r.seconds;
    const double flops = r.work.flops / r.seconds;
    std::printf("%-26s %10.1f %8.0f %8.1f%% %8.2f %8.1f%%\n", r.name.c_str(), r.seconds * 1e6,
                bytes / 1e9, 100 * bytes / copy, flops / 1e12, 100 * flops / gemm);
    if (json != nullptr) {
      std::fprintf(json,
                   "%s\n  {\"name\": \"%s\", \"seconds\": %.6g, \"bytes_once\": %.6g, "
                   "\"bytes_gathered\": %.6g, \"flops\": %.6g}",
                   comma, r.name.c_str(), r.seconds, r.work.once, r.work.gathered, r.work.flops);
    }
    comma = ",";
  }
  if (json != nullptr) std::fprintf(json, "\n]}\n");
}

}  // namespace heliograph::bench
