#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/kernels.hpp"
#include "device/results.hpp"

namespace heliograph::bench {

/// Times calls of kernels by events of their stream: a batch of calls lies between two events, of
/// which the first follows a call of its own, so that the host is ahead of the device by then.
/// Neither its waits nor its way to the first call count. Calls that are shorter than their launch
/// (2 to 4 us) still take as long as the host needs.
class Timer {
 public:
  /// Measures each call for about `seconds`; calls `keep` with all results so far after each.
  Timer(double seconds, std::function<void(const std::vector<Result>&)> keep)
      : seconds_(seconds), keep_(std::move(keep)) {}

  /// Adds the median time of `call` over five batches, less `subtracted` seconds. Returns its
  /// result.
  Result& add(Kernels& kernels, const std::string& name, Work work,
              const std::function<void()>& call, double subtracted = 0);
  /// The median time of `call`, without a result.
  double measure(Kernels& kernels, const std::function<void()>& call) const;

  const std::vector<Result>& results() const { return results_; }

 private:
  const double seconds_;
  const std::function<void(const std::vector<Result>&)> keep_;
  std::vector<Result> results_;
};

}  // namespace heliograph::bench
