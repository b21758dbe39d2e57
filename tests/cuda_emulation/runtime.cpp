#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "block.hpp"
#include "device_memory.hpp"
#include "emulation.hpp"
#include "streams.hpp"

struct CUevent_st {
  int device = 0;
  std::shared_ptr<heliograph::cuda_emulation::Stream> stream;  // null: not recorded yet
  std::int64_t position = 0;
};

namespace heliograph::cuda_emulation {
namespace {

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

/// Never destroyed: other statics may use it while they end.
Runtime& runtime() {
  static auto* const the = new Runtime;
  return *the;
}

thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;

int device_count() {
  const char* text = std::getenv("HELIOGRAPH_EMULATED_DEVICES");
  return text == nullptr ? 1 : std::atoi(text);
}

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

/// Does the work of `stream` up to a position; false if some of it has to wait for other threads.
bool advance(Stream& stream, std::int64_t position) {
  Runtime& r = runtime();
  ++r.depth;
  while (stream.done < position && r.broken.empty()) {
    if (stream.work.front().ready && !stream.work.front().ready()) break;
    const Work work = std::move(stream.work.front());
    stream.work.pop_front();
    if (work.other != nullptr) {
      if (!advance(*work.other, work.until)) {
        stream.work.push_front(work);
        break;
      }
    } else {
      if (work.access == Access::own_device) r.memory.open(stream.device);
      if (work.access == Access::all_devices) r.memory.open_all();
      r.broken = work.run();
    }
    ++stream.done;
  }
  --r.depth;
  if (r.depth == 0) r.memory.close();
  return stream.done >= position || !r.broken.empty();
}

cudaError_t broken_or(cudaError_t otherwise) {
  return runtime().broken.empty() ? otherwise : cudaErrorLaunchFailure;
}

cudaError_t finish(Stream& stream) {
  if (!advance(stream, stream.issued)) {
    runtime().broken = "the host waits for messages of other ranks with everything locked";
  }
  return broken_or(cudaSuccess);
}

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

enum class Place { pageable, pinned, device, beyond };

Place place_of(const void* pointer, std::size_t bytes) {
  const Runtime& r = runtime();
  const int device = r.memory.device_of(pointer, bytes);
  if (device == DeviceMemory::kBeyond) return Place::beyond;
  if (device != DeviceMemory::kNone) return Place::device;
  const auto at = reinterpret_cast<std::uintptr_t>(pointer);
  const auto next = r.pinned.upper_bound(at);
  if (next == r.pinned.begin()) return Place::pageable;
  const auto found = std::prev(next);
  if (at >= found->first + found->second) return Place::pageable;
  return at + bytes <= found->first + found->second ? Place::pinned : Place::beyond;
}

bool kind_fits(cudaMemcpyKind kind, bool to_device, bool from_device) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    default:
      return kind == cudaMemcpyDefault;
  }
}

cudaError_t copy(Stream& stream, void* to, const void* from, std::size_t bytes,
                 cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  const Place source = place_of(from, bytes);
  const Place target = place_of(to, bytes);
  if (source == Place::beyond || target == Place::beyond) return cudaErrorInvalidValue;
  if (!kind_fits(kind, target == Place::device, source == Place::device)) {
    return cudaErrorInvalidMemcpyDirection;
  }
  if (source == Place::pageable) {
    const auto* begin = static_cast<const char*>(from);
    enqueue(stream, Access::all_devices,
            [to, staged = std::vector<char>(begin, begin + bytes)]() -> std::string {
              std::memcpy(to, staged.data(), staged.size());
              return {};
            });
  } else {
    enqueue(stream, Access::all_devices, [to, from, bytes]() -> std::string {
      std::memmove(to, from, bytes);
      return {};
    });
  }
  return target == Place::pageable ? finish(stream) : cudaSuccess;
}

}  // namespace

std::shared_ptr<Stream> find_stream(cudaStream_t handle) {
  if (handle == cudaStreamPerThread) {
    thread_local std::map<int, std::shared_ptr<Stream>> own;  // by device
    std::shared_ptr<Stream>& stream = own[current_device];
    if (stream == nullptr) {
      stream = std::make_shared<Stream>();
      stream->device = current_device;
    }
    return stream;
  }
  const auto found = runtime().streams.find(handle);
  return found == runtime().streams.end() ? nullptr : found->second;
}

void enqueue(Stream& stream, Access access, std::function<std::string()> run) {
  stream.work.push_back({access, std::move(run), {}, nullptr, 0});
  ++stream.issued;
}

cudaError_t api_call(const char* function, const std::function<cudaError_t()>& body) {
  Runtime& r = runtime();
  const std::lock_guard guard(r.lock);
  const std::int64_t call = ++r.calls[function];
  const auto [first, last] = r.failures.equal_range(function);
  for (auto i = first; i != last; ++i) {
    if (i->second.at_call != call) continue;
    const cudaError_t error = i->second.error;
    r.failures.erase(i);
    return remember(error);
  }
  if (!r.broken.empty()) return remember(cudaErrorLaunchFailure);
  return remember(body());
}

bool on_device(const void* pointer, std::size_t bytes) {
  return place_of(pointer, bytes) == Place::device;
}

cudaError_t enqueue_kernel(const char* kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
                           cudaStream_t handle, std::function<void()> thread) {
  return stream_call(
      "cudaLaunchKernel", handle, [&](const std::shared_ptr<Stream>& stream) -> cudaError_t {
        if (stream->device != current_device) return cudaErrorInvalidResourceHandle;
        if (grid.x == 0 || grid.x > 0x7fffffffU || block.x == 0 || block.x > 1024 || grid.y != 1 ||
            grid.z != 1 || block.y != 1 || block.z != 1) {
          return cudaErrorInvalidConfiguration;
        }
        if (shared_bytes > kMostShared) return cudaErrorInvalidValue;
        enqueue(*stream, Access::own_device, [=, body = std::move(thread)]() -> std::string {
          const std::string wrong = run_grid(grid, block, shared_bytes, runtime().backwards, body);
          return wrong.empty() ? wrong : wrong + ", in " + kernel;
        });
        return cudaSuccess;
      });
}

void fail_call(const char* function, int n, cudaError_t error) {
  Runtime& r = runtime();
  const std::lock_guard guard(r.lock);
  r.failures.emplace(function, OrderedFailure{r.calls[function] + n, error});
}

std::int64_t calls(const char* function) {
  Runtime& r = runtime();
  const std::lock_guard guard(r.lock);
  return r.calls[function];
}

void set_memory(std::size_t bytes) {
  const std::lock_guard guard(runtime().lock);
  runtime().memory.set_limit(bytes);
}

std::size_t live_bytes() {
  const std::lock_guard guard(runtime().lock);
  return runtime().memory.live_bytes();
}

void run_backwards(bool backwards) {
  const std::lock_guard guard(runtime().lock);
  runtime().backwards = backwards;
}

void repair() {
  Runtime& r = runtime();
  const std::lock_guard guard(r.lock);
  r.broken.clear();
  r.failures.clear();
  for (auto& [handle, stream] : r.streams) {
    stream->work.clear();
    stream->done = stream->issued;
  }
  last_error = cudaSuccess;
}

std::int64_t waiting(cudaStream_t handle) {
  const std::lock_guard guard(runtime().lock);
  const std::shared_ptr<Stream> stream = find_stream(handle);
  return stream == nullptr ? 0 : stream->issued - stream->done;
}

std::int64_t waiting() {
  const std::lock_guard guard(runtime().lock);
  std::int64_t sum = 0;
  for (const auto& [handle, stream] : runtime().streams) sum += stream->issued - stream->done;
  return sum;
}

}  // namespace heliograph::cuda_emulation

namespace {
namespace emulation = heliograph::cuda_emulation;
using emulation::Access;
using emulation::api_call;
using emulation::event_call;
using emulation::runtime;
using emulation::Stream;
using emulation::stream_call;
using SharedStream = std::shared_ptr<Stream>;

int pool_marker;  // what a pool's handle points to

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
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return api_call("cudaDeviceGetDefaultMemPool", [&] {
    if (device < 0 || device >= emulation::device_count()) return cudaErrorInvalidDevice;
    *pool = reinterpret_cast<cudaMemPool_t>(&pool_marker);
    return cudaSuccess;
  });
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr, void* value) {
  return api_call("cudaMemPoolSetAttribute", [&] {
    const bool known = pool == reinterpret_cast<cudaMemPool_t>(&pool_marker) && value != nullptr;
    return known ? cudaSuccess : cudaErrorInvalidValue;
  });
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* access,
                                 std::size_t count) {
  return api_call("cudaMemPoolSetAccess", [&] {
    if (pool != reinterpret_cast<cudaMemPool_t>(&pool_marker)) return cudaErrorInvalidValue;
    for (std::size_t i = 0; i < count; ++i) {
      if (access[i].location.type != cudaMemLocationTypeDevice || access[i].location.id < 0 ||
          access[i].location.id >= emulation::device_count()) {
        return cudaErrorInvalidValue;
      }
    }
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return api_call("cudaDeviceCanAccessPeer", [&] {
    const int devices = emulation::device_count();
    if (device < 0 || device >= devices || peer < 0 || peer >= devices) {
      return cudaErrorInvalidDevice;
    }
    *can = device != peer ? 1 : 0;
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

cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t handle) {
  return stream_call("cudaMallocAsync", handle, [&](const SharedStream& stream) {
    *pointer = runtime().memory.take(bytes, stream->device);
    return *pointer != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t handle) {
  return stream_call("cudaFreeAsync", handle, [&](const SharedStream& stream) {
    if (!runtime().memory.retire(pointer)) return cudaErrorInvalidValue;
    emulation::enqueue(*stream, Access::none,
                       [pointer] { return runtime().memory.give_back(pointer); });
    return cudaSuccess;
  });
}
cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  return api_call("cudaHostAlloc", [&] {
    *pointer = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (*pointer == nullptr) return cudaErrorMemoryAllocation;
    runtime().pinned.emplace(reinterpret_cast<std::uintptr_t>(*pointer), bytes);
    return cudaSuccess;
  });
}
cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}
cudaError_t cudaFreeHost(void* pointer) {
  return api_call("cudaFreeHost", [&] {
    if (runtime().pinned.erase(reinterpret_cast<std::uintptr_t>(pointer)) == 0) {
      return cudaErrorInvalidValue;
    }
    for (const auto& [handle, stream] : runtime().streams) emulation::finish(*stream);
    std::free(pointer);
    return cudaSuccess;
  });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  return stream_call("cudaMemcpyAsync", handle, [&](const SharedStream& stream) {
    return emulation::copy(*stream, to, from, bytes, kind);
  });
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                std::size_t bytes, cudaStream_t handle) {
  return stream_call("cudaMemcpyPeerAsync", handle, [&](const SharedStream& stream) {
    if (bytes == 0) return cudaSuccess;
    if (runtime().memory.device_of(to, bytes) != to_device ||
        runtime().memory.device_of(from, bytes) != from_device) {
      return cudaErrorInvalidValue;
    }
    return emulation::copy(*stream, to, from, bytes, cudaMemcpyDeviceToDevice);
  });
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t handle) {
  return stream_call("cudaMemsetAsync", handle, [&](const SharedStream& stream) {
    if (bytes == 0) return cudaSuccess;
    if (!emulation::on_device(to, bytes)) return cudaErrorInvalidValue;
    emulation::enqueue(*stream, Access::all_devices, [=]() -> std::string {
      std::memset(to, value, bytes);
      return {};
    });
    return cudaSuccess;
  });
}

}  // extern "C"
