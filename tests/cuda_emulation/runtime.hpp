#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "device_memory.hpp"
#include "graphs.hpp"
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

/// A kernel that was launched before.
struct KnownKernel {
  KernelType type;
  void* function;
};

enum class GridOrder : std::uint8_t { alternating, forwards, backwards };

struct Runtime {
  std::recursive_mutex lock;
  DeviceMemory memory;
  std::map<std::uintptr_t, std::size_t> pinned;
  std::map<cudaStream_t, std::shared_ptr<Stream>> streams;
  std::map<cudaEvent_t, std::unique_ptr<CUevent_st>> events;
  std::map<cudaGraph_t, std::shared_ptr<Graph>> graphs;
  std::map<cudaGraphExec_t, std::unique_ptr<CUgraphExec_st>> execs;
  std::map<void*, KnownKernel> kernels;
  std::map<std::string, std::int64_t> calls;
  std::multimap<std::string, OrderedFailure> failures;
  GridOrder order = GridOrder::alternating;
  Stream* at_work = nullptr;  ///< The stream whose work runs.
  int depth = 0;              ///< Of streams that wait for streams.
  std::string broken;         ///< What a kernel did; then every call fails, as on a device.
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

/// Whether a device takes such a launch. Breaks it where it would find that out as the kernel runs.
cudaError_t check_launch(const KnownKernel& kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
                         void** arguments);
/// The work of a stream that a launch is.
std::function<std::string()> grid_work(const KnownKernel& kernel, dim3 grid, dim3 block,
                                       std::size_t shared_bytes, void** arguments);

/// Whether `device` itself may touch what lies there, as far as pools decide it.
bool pool_is_open(const void* pointer, int device);

/// Whether `function` may be called for a stream that captures. What it says no to, it ends, as
/// CUDA does. (CUDA captures more than is emulated: copies, events, memory.)
bool fits_capture(const char* function, Stream& stream);

/// Whether `function` may be called by a thread that captures, likewise.
bool fits_capturing_thread(const char* function);
/// Whether a device may be waited for as a whole: not while a stream of it captures, likewise.
bool fits_captures_of(int device);
void forget_captures();  ///< Of the calling thread.

/// With `stream`, if the handle is one's.
template <class Body>
cudaError_t stream_call(const char* function, cudaStream_t handle, Body body) {
  return api_call(function, [&]() -> cudaError_t {
    const std::shared_ptr<Stream> stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return fits_capture(function, *stream) ? body(stream) : cudaErrorStreamCaptureUnsupported;
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
