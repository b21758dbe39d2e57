#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "device_memory.hpp"
#include "streams.hpp"

// What the calls of the emulated runtime share.

struct CUevent_st {
  int device = 0;
  std::shared_ptr<heliograph::cuda_emulation::Stream> stream;  // null: not recorded yet
  std::int64_t position = 0;
};

namespace heliograph::cuda_emulation {

struct OrderedFailure {
  std::int64_t at_call;
  cudaError_t error;
};

struct Runtime {
  std::recursive_mutex lock;
  DeviceMemory memory;
  std::map<std::uintptr_t, std::size_t> pinned;
  std::map<cudaStream_t, std::shared_ptr<Stream>> streams;
  std::map<cudaEvent_t, std::unique_ptr<CUevent_st>> events;
  std::map<std::string, std::int64_t> calls;
  std::multimap<std::string, OrderedFailure> failures;
  bool backwards = false;
  int depth = 0;       ///< Of streams that wait for streams.
  std::string broken;  ///< What a kernel did; then every call fails, as on a device.
};

Runtime& runtime();

extern thread_local cudaError_t last_error;
extern thread_local int current_device;

int device_count();

/// Does the work of `stream` up to a position; false if some of it has to wait for other threads.
bool advance(Stream& stream, std::int64_t position);
/// Does all the work of `stream`.
cudaError_t finish(Stream& stream);
cudaError_t broken_or(cudaError_t otherwise);

/// With `stream`, if the handle is one's.
template <class Body>
cudaError_t stream_call(const char* function, cudaStream_t handle, Body body) {
  return api_call(function, [&]() -> cudaError_t {
    const std::shared_ptr<Stream> stream = find_stream(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : body(stream);
  });
}
template <class Body>
cudaError_t event_call(const char* function, cudaEvent_t handle, Body body) {
  return api_call(function, [&]() -> cudaError_t {
    const auto found = runtime().events.find(handle);
    return found == runtime().events.end() ? cudaErrorInvalidResourceHandle : body(*found->second);
  });
}

}  // namespace heliograph::cuda_emulation
