// Errors, devices, streams and events.

#include <chrono>
#include <cstdio>
#include <utility>

#include "block.hpp"
#include "runtime.hpp"

namespace {
using namespace heliograph::cuda_emulation;

/// Not ready where there was something to do: those who poll have to ask again.
cudaError_t poll(Stream& stream, std::int64_t position) {
  if (stream.done >= position) return cudaSuccess;
  advance(stream, position);
  return broken_or(cudaErrorNotReady);
}

/// An api_call with the event behind `handle`.
template <class Body>
cudaError_t event_call(const char* function, cudaEvent_t handle, Body body) {
  return api_call(function, [&]() -> cudaError_t {
    const auto found = runtime().events.find(handle);
    return found == runtime().events.end() ? cudaErrorInvalidResourceHandle : body(*found->second);
  });
}

}  // namespace

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define HELIOGRAPH_EMULATED_ERROR(name, value) \
  case name:                                   \
    return #name;
    HELIOGRAPH_EMULATED_ERRORS(HELIOGRAPH_EMULATED_ERROR)
#undef HELIOGRAPH_EMULATED_ERROR
  }
  return "unknown error";
}

const char* cudaGetErrorString(cudaError_t error) {
  thread_local std::string text;
  const std::lock_guard guard(runtime().lock);
  if (error != cudaErrorLaunchFailure || runtime().broken.empty()) return cudaGetErrorName(error);
  text = runtime().broken;
  return text.c_str();
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

cudaError_t cudaGetDeviceCount(int* count) {
  return api_call("cudaGetDeviceCount", [&] {
    *count = device_count();
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}
cudaError_t cudaGetDevice(int* device) {
  return api_call("cudaGetDevice", [&] {
    *device = current_device;
    return cudaSuccess;
  });
}
cudaError_t cudaSetDevice(int device) {
  return api_call("cudaSetDevice", [&] {
    if (!device_exists(device)) return cudaErrorInvalidDevice;
    current_device = device;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return api_call("cudaDeviceGetAttribute", [&] {
    if (!device_exists(device)) return cudaErrorInvalidDevice;
    static const std::map<cudaDeviceAttr, int> values = {
        {cudaDevAttrMaxSharedMemoryPerBlock, static_cast<int>(kMostShared)},
        {cudaDevAttrMultiProcessorCount, 4},
        {cudaDevAttrComputeCapabilityMajor, 9},
        {cudaDevAttrComputeCapabilityMinor, 0},
        {cudaDevAttrMemoryPoolsSupported, 1}};
    *value = values.at(attribute);
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceSynchronize() {
  return api_call("cudaDeviceSynchronize", [] {
    if (!fits_captures_of(current_device)) return cudaErrorStreamCaptureUnsupported;
    ++runtime().host_waits;
    finish_device(current_device);
    return broken_or(cudaSuccess);
  });
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return api_call("cudaMemGetInfo", [&] {
    *total = runtime().memory.limit();
    *free = *total - runtime().memory.live_bytes(current_device);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned) {
  return api_call("cudaStreamCreateWithFlags", [&] {
    auto stream = std::make_shared<Stream>();
    stream->device = current_device;
    *handle = reinterpret_cast<cudaStream_t>(stream.get());
    runtime().streams.emplace(*handle, std::move(stream));
    return cudaSuccess;
  });
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned flags, int) {
  return cudaStreamCreateWithFlags(handle, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  return api_call("cudaDeviceGetStreamPriorityRange", [&] {
    *lowest = 0;
    *highest = -5;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  return api_call("cudaDeviceGetPCIBusId", [&] {
    if (!device_exists(device)) return cudaErrorInvalidDevice;
    std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02x:00.0", device + 1);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return stream_call("cudaStreamDestroy", handle, [&](const SharedStream& stream) {
    finish(*stream);
    runtime().streams.erase(handle);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return stream_call("cudaStreamSynchronize", handle, [](const SharedStream& stream) {
    ++runtime().host_waits;
    return finish(*stream);
  });
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return stream_call("cudaStreamQuery", handle, [](const SharedStream& stream) {
    const cudaError_t answer = poll(*stream, stream->issued);
    if (answer == cudaSuccess) ++runtime().host_waits;  // Those who ask a stream ask until then.
    return answer;
  });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned flags) {
  return stream_call("cudaStreamWaitEvent", handle, [&](const SharedStream& stream) -> cudaError_t {
    const auto found = runtime().events.find(event_handle);
    if (found == runtime().events.end()) return cudaErrorInvalidResourceHandle;
    if (flags != 0) return cudaErrorInvalidValue;
    const SharedStream other = found->second->stream;
    if (other == nullptr || other == stream) return cudaSuccess;
    stream->work.push_back(
        {Access::none, [] { return std::string(); },
         [other, position = found->second->position] { return advance(*other, position); }});
    ++stream->issued;
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned) {
  return api_call("cudaEventCreateWithFlags", [&] {
    auto event = std::make_unique<CUevent_st>();
    event->device = current_device;
    *handle = event.get();
    runtime().events.emplace(*handle, std::move(event));
    return cudaSuccess;
  });
}
cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return event_call("cudaEventDestroy", handle, [&](CUevent_st&) {
    runtime().events.erase(handle);
    return cudaSuccess;
  });
}
cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
  return event_call("cudaEventRecord", handle, [&](CUevent_st& event) {
    SharedStream found = find_stream(stream);
    if (found == nullptr || found->device != event.device) return cudaErrorInvalidResourceHandle;
    event.position = found->issued;
    event.recorded = std::chrono::steady_clock::now();
    event.stream = std::move(found);
    return cudaSuccess;
  });
}
cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return event_call("cudaEventQuery", handle, [](CUevent_st& event) {
    return event.stream == nullptr ? cudaSuccess : poll(*event.stream, event.position);
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return event_call("cudaEventSynchronize", handle, [](CUevent_st& event) {
    ++runtime().host_waits;
    return event.stream == nullptr ? cudaSuccess : finish(*event.stream, event.position);
  });
}
/// Work is done by whoever waits for it, so the time is that since `begin` was recorded.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return event_call("cudaEventElapsedTime", begin, [&](CUevent_st& first) {
    const auto last = runtime().events.find(end);
    if (last == runtime().events.end() || first.stream == nullptr ||
        last->second->stream == nullptr) {
      return cudaErrorInvalidResourceHandle;
    }
    if (last->second->stream->done < last->second->position) return cudaErrorNotReady;
    const auto passed = std::chrono::steady_clock::now() - first.recorded;
    *milliseconds = std::chrono::duration<float, std::milli>(passed).count();
    return cudaSuccess;
  });
}

}  // extern "C"
