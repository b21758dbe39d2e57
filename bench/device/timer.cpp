#include "device/timer.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>

#include "core/cuda/runtime.hpp"

namespace heliograph::bench {
namespace {

constexpr int kRounds = 5;

/// A pair of events that take times.
class Events {
 public:
  Events() {
    cuda::check(cudaEventCreateWithFlags(&begin, 0), "making an event");
    cuda::check(cudaEventCreateWithFlags(&end, 0), "making an event");
  }
  ~Events() {
    for (cudaEvent_t event : {begin, end}) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
};

}  // namespace

double Timer::measure(Kernels& kernels, const std::function<void()>& call) const {
  const Events events;
  const auto record = [&](cudaEvent_t event) {
    cuda::check(cudaEventRecord(event, kernels.device().queue()->stream()), "recording an event");
  };
  const auto batch = [&](int calls) {
    call();
    record(events.begin);
    for (int i = 0; i < calls; ++i) call();
    record(events.end);
    kernels.device().finish();
    float milliseconds = 0;
    cuda::check(cudaEventElapsedTime(&milliseconds, events.begin, events.end), "reading a time");
    return 1e-3 * static_cast<double>(milliseconds) / calls;
  };
  batch(3);
  const double once = std::max(batch(3), 1e-7);
  const int calls = std::clamp(static_cast<int>(seconds_ / kRounds / once), 1, 10000);
  std::array<double, kRounds> times{};
  for (double& time : times) time = batch(calls);
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return times[kRounds / 2];
}

Result& Timer::add(Kernels& kernels, const std::string& name, Work work,
                   const std::function<void()>& call, double subtracted) {
  const double seconds = measure(kernels, call);
  // A wait that varies may leave next to nothing of a short call.
  results_.push_back({name, std::max(seconds - subtracted, 1e-7), work, subtracted, {}});
  keep_(results_);
  return results_.back();
}

}  // namespace heliograph::bench
