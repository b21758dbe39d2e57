#include "nccl_state.hpp"

namespace heliograph::nccl_emulation {

Emulation& emulation() {
  static auto* const the = new Emulation;
  return *the;
}

ncclResult_t violation(const std::string& what) {
  emulation().violations.push_back(what);
  return ncclInvalidUsage;
}

ncclResult_t record(int rank, const Call& call) {
  Emulation& e = emulation();
  e.calls[rank].push_back(call);
  const int count = ++e.counts[{rank, call.function}];
  const auto failure = e.failures.find({rank, call.function});
  if (failure == e.failures.end() || failure->second.at_call != count) return ncclSuccess;
  const ncclResult_t error = failure->second.error;
  e.failures.erase(failure);
  return error;
}

ncclResult_t check(ncclComm_t comm, const std::string& function) {
  if (comm == nullptr || comm->ended) return violation(function + " after the end");
  const std::string rank = " by rank " + std::to_string(comm->rank);
  if (comm->asked) return violation(function + rank + " while something else is taken up");
  int device = -1;
  cudaGetDevice(&device);
  if (device != comm->device) return violation(function + rank + " on another device");
  return ncclSuccess;
}

ncclResult_t locked_call(const char* function, const std::function<ncclResult_t()>& body) {
  ncclResult_t result = ncclInternalError;
  const cudaError_t status = cuda_emulation::api_call(function, [&] {
    const std::lock_guard lock(emulation().lock);
    result = body();
    return cudaSuccess;
  });
  return status == cudaSuccess ? result : ncclUnhandledCudaError;
}

ncclResult_t comm_call(const char* function, ncclComm_t comm, std::size_t bytes,
                       const std::function<ncclResult_t()>& body) {
  return locked_call(function, [&] {
    ncclResult_t wrong = check(comm, function);
    if (wrong == ncclSuccess) wrong = record(comm->rank, {function, -1, bytes});
    return wrong == ncclSuccess ? body() : wrong;
  });
}

ncclResult_t ask(ncclComm_t comm, std::function<void()> take_up) {
  comm->polls_left = emulation().polls;
  comm->asked = true;
  comm->take_up = std::move(take_up);
  if (comm->polls_left > 0) return ncclInProgress;
  comm->asked = false;
  comm->take_up();
  return ncclSuccess;
}

std::vector<Call> calls_of(int rank) {
  const std::lock_guard lock(emulation().lock);
  return emulation().calls[rank];
}

std::vector<std::string> violations() {
  const std::lock_guard lock(emulation().lock);
  return emulation().violations;
}

void set_polls(int polls) {
  const std::lock_guard lock(emulation().lock);
  emulation().polls = polls;
}

void slow_down(int device) {
  const std::lock_guard lock(emulation().lock);
  emulation().slow_device = device;
}

void fail_call(int rank, const std::string& function, int n, ncclResult_t error) {
  Emulation& e = emulation();
  const std::lock_guard lock(e.lock);
  e.failures[{rank, function}] = {e.counts[{rank, function}] + n, error};
}

void fail_group(int rank, int n, ncclResult_t error) {
  const std::lock_guard lock(emulation().lock);
  emulation().group_failures[rank] = {n, error};
}

void hang_aborts(bool hang) {
  Emulation& e = emulation();
  std::unique_lock lock(e.lock);
  e.aborts_hang = hang;
  e.changed.notify_all();
  if (!hang) e.changed.wait(lock, [&] { return e.aborting == 0; });
}

void reset() {
  Emulation& e = emulation();
  const std::lock_guard lock(e.lock);
  e.calls.clear();
  e.counts.clear();
  e.failures.clear();
  e.group_failures.clear();
  e.violations.clear();
  e.polls = 0;
  e.slow_device = -1;
  // Worlds, communicators and groups stay: work of streams may still name them.
}

}  // namespace heliograph::nccl_emulation
