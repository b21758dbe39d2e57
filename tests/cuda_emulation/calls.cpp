// Errors, devices, streams and events.

#include <cstdio>
#include <utility>

#include "block.hpp"
#include "runtime.hpp"

namespace {
namespace emulation = heliograph::cuda_emulation;
using emulation::Access;
using emulation::api_call;
using emulation::event_call;
using emulation::runtime;
using emulation::Stream;
using emulation::stream_call;
using SharedStream = std::shared_ptr<Stream>;

/// Not ready where there was something to do: those who poll have to ask again.
cudaError_t poll(Stream& stream, std::int64_t position) {
  if (stream.done >= position) return cudaSuccess;
  emulation::advance(stream, position);
  return emulation::broken_or(cudaErrorNotReady);
}

}  // namespace

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidMemcpyDirection:
      return "cudaErrorInvalidMemcpyDirection";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorInvalidDeviceFunction:
      return "cudaErrorInvalidDeviceFunction";
    case cudaErrorIllegalState:
      return "cudaErrorIllegalState";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    default:
      return "cudaErrorUnknown";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  thread_local std::string text;
  const std::lock_guard guard(runtime().lock);
  if (error != cudaErrorLaunchFailure || runtime().broken.empty()) return cudaGetErrorName(error);
  text = runtime().broken;
  return text.c_str();
}

cudaError_t cudaGetLastError() { return std::exchange(emulation::last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return emulation::last_error; }

cudaError_t cudaGetDeviceCount(int* count) {
  return api_call("cudaGetDeviceCount", [&] {
    *count = emulation::device_count();
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}
cudaError_t cudaGetDevice(int* device) {
  return api_call("cudaGetDevice", [&] {
    *device = emulation::current_device;
    return cudaSuccess;
  });
}
cudaError_t cudaSetDevice(int device) {
  return api_call("cudaSetDevice", [&] {
    if (device < 0 || device >= emulation::device_count()) return cudaErrorInvalidDevice;
    emulation::current_device = device;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return api_call("cudaDeviceGetAttribute", [&] {
    if (device < 0 || device >= emulation::device_count()) return cudaErrorInvalidDevice;
    switch (attribute) {
      case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = static_cast<int>(emulation::kMostShared);
        return cudaSuccess;
      case cudaDevAttrMultiProcessorCount:
        *value = 4;
        return cudaSuccess;
      case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        return cudaSuccess;
      case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        return cudaSuccess;
      case cudaDevAttrMemoryPoolsSupported:
        *value = 1;
        return cudaSuccess;
    }
    return cudaErrorInvalidValue;
  });
}
cudaError_t cudaDeviceSynchronize() {
  return api_call("cudaDeviceSynchronize", [] {
    if (!emulation::fits_captures_of(emulation::current_device)) {
      return cudaErrorStreamCaptureUnsupported;
    }
    for (const auto& [handle, stream] : runtime().streams) {
      if (stream->device == emulation::current_device) emulation::finish(*stream);
    }
    return emulation::broken_or(cudaSuccess);
  });
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return api_call("cudaMemGetInfo", [&] {
    *total = runtime().memory.limit();
    *free = *total - runtime().memory.live_bytes(emulation::current_device);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned) {
  return api_call("cudaStreamCreateWithFlags", [&] {
    auto stream = std::make_shared<Stream>();
    stream->device = emulation::current_device;
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
    if (device < 0 || device >= emulation::device_count()) return cudaErrorInvalidDevice;
    std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02x:00.0", device + 1);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return stream_call("cudaStreamDestroy", handle, [&](const SharedStream& stream) {
    emulation::finish(*stream);
    runtime().streams.erase(handle);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return stream_call("cudaStreamSynchronize", handle,
                     [](const SharedStream& stream) { return emulation::finish(*stream); });
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return stream_call("cudaStreamQuery", handle,
                     [](const SharedStream& stream) { return poll(*stream, stream->issued); });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  return stream_call("cudaStreamWaitEvent", handle, [&](const SharedStream& stream) {
    const auto found = runtime().events.find(event);
    if (found == runtime().events.end()) return cudaErrorInvalidResourceHandle;
    const CUevent_st& e = *found->second;
    if (e.stream == nullptr) return cudaSuccess;
    stream->work.push_back({Access::none, {}, {}, e.stream, e.position});
    ++stream->issued;
    return cudaSuccess;
  });
}
cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  return stream_call("cudaLaunchHostFunc", handle, [&](const SharedStream& stream) {
    emulation::enqueue(*stream, Access::none, [=]() -> std::string {
      function(argument);
      return {};
    });
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned) {
  return api_call("cudaEventCreateWithFlags", [&] {
    auto event = std::make_unique<CUevent_st>();
    event->device = emulation::current_device;
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
    SharedStream found = emulation::find_stream(stream);
    if (found == nullptr || found->device != event.device) return cudaErrorInvalidResourceHandle;
    event.position = found->issued;
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
    if (event.stream != nullptr && !emulation::advance(*event.stream, event.position)) {
      runtime().broken = "the host waits for messages of other ranks with everything locked";
    }
    return emulation::broken_or(cudaSuccess);
  });
}

}  // extern "C"
