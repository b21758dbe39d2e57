// Memory of devices, page-locked memory, copies.

#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "runtime.hpp"

namespace heliograph::cuda_emulation {
namespace {

/// Pairs of devices, source first, between which copies write nothing.
std::set<std::pair<int, int>> lossy;

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
  if (kind == cudaMemcpyDefault) return true;
  return to_device == (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) &&
         from_device == (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice);
}

cudaError_t copy(Stream& stream, void* to, const void* from, std::size_t bytes,
                 cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  const Place source = place_of(from, bytes);
  const Place target = place_of(to, bytes);
  const DeviceMemory& memory = runtime().memory;
  if (lossy.contains({memory.device_of(from, bytes), memory.device_of(to, bytes)})) {
    return cudaSuccess;
  }
  if (source == Place::beyond || target == Place::beyond) return cudaErrorInvalidValue;
  if (!kind_fits(kind, target == Place::device, source == Place::device)) {
    return cudaErrorInvalidMemcpyDirection;
  }
  if ((source == Place::device) != (target == Place::device)) {
    Copies& copies = target == Place::device ? runtime().to_devices : runtime().to_host;
    ++copies.calls;
    copies.bytes += static_cast<std::int64_t>(bytes);
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

/// Whether work that the calling thread enqueues on `stream` may access `pointer`. Memory of a pool
/// needs a device with access to the pool, and a thread that has selected the stream's device.
bool touches(const Stream& stream, const void* pointer) {
  return pool_is_open(pointer, stream.device) &&
         (runtime().memory.pool_of(pointer) == DeviceMemory::kNone ||
          stream.device == current_device);
}

}  // namespace

void lose_copies(int from, int to, bool lose) {
  const std::lock_guard guard(runtime().lock);
  if (lose) {
    lossy.emplace(from, to);
  } else {
    lossy.erase({from, to});
  }
}

bool on_device(const void* pointer, std::size_t bytes) {
  return place_of(pointer, bytes) == Place::device;
}

}  // namespace heliograph::cuda_emulation

using namespace heliograph::cuda_emulation;

extern "C" {

cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t handle) {
  return stream_call("cudaMallocAsync", handle, [&](const SharedStream& stream) {
    *pointer = runtime().memory.take(bytes, stream->device, DeviceMemory::Kind::pooled);
    return *pointer != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t handle) {
  return stream_call("cudaFreeAsync", handle, [&](const SharedStream& stream) {
    if (!runtime().memory.retire(pointer)) return cudaErrorInvalidValue;
    enqueue(*stream, Access::none, [pointer] { return runtime().memory.give_back(pointer); });
    return cudaSuccess;
  });
}
cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return api_call("cudaMalloc", [&] {
    // The MPI of the tests knows host memory only, so a CUDA-aware one is emulated by letting the
    // host access this memory.
    static const auto kind = std::getenv("HELIOGRAPH_EMULATED_CUDA_AWARE_MPI") != nullptr
                                 ? DeviceMemory::Kind::open_to_host
                                 : DeviceMemory::Kind::plain;
    *pointer = runtime().memory.take(bytes, current_device, kind);
    return *pointer != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}
cudaError_t cudaFree(void* pointer) {
  return api_call("cudaFree", [&] {
    finish_device(current_device);
    if (!runtime().memory.retire(pointer)) return cudaErrorInvalidValue;
    const std::string wrong = runtime().memory.give_back(pointer);
    if (!wrong.empty()) runtime().broken = wrong;
    return broken_or(cudaSuccess);
  });
}
cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return api_call("cudaMallocHost", [&] {
    *pointer = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (*pointer == nullptr) return cudaErrorMemoryAllocation;
    runtime().pinned.emplace(reinterpret_cast<std::uintptr_t>(*pointer), bytes);
    return cudaSuccess;
  });
}
cudaError_t cudaFreeHost(void* pointer) {
  return api_call("cudaFreeHost", [&] {
    if (runtime().pinned.erase(reinterpret_cast<std::uintptr_t>(pointer)) == 0) {
      return cudaErrorInvalidValue;
    }
    finish_device(current_device);
    // Streams of other devices advance as far as possible without waiting for other ranks.
    for (const auto& [handle, stream] : runtime().streams) advance(*stream, stream->issued);
    std::free(pointer);
    return cudaSuccess;
  });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  return stream_call("cudaMemcpyAsync", handle, [&](const SharedStream& stream) {
    if (!touches(*stream, to) || !touches(*stream, from)) {
      return cudaErrorInvalidValue;  // Only cudaMemcpyPeerAsync does without.
    }
    return copy(*stream, to, from, bytes, kind);
  });
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return api_call("cudaPointerGetAttributes", [&] {
    const Place place = place_of(pointer, 1);
    if (place == Place::beyond) return cudaErrorInvalidValue;
    const bool host = place != Place::device;
    void* at = const_cast<void*>(pointer);
    *attributes = {place == Place::pageable ? cudaMemoryTypeUnregistered
                   : host                   ? cudaMemoryTypeHost
                                            : cudaMemoryTypeDevice,
                   host ? current_device : runtime().memory.device_of(pointer, 1),
                   place == Place::pageable ? nullptr : at, host ? at : nullptr};
    return cudaSuccess;
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
    return copy(*stream, to, from, bytes, cudaMemcpyDeviceToDevice);
  });
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t handle) {
  return stream_call("cudaMemsetAsync", handle, [&](const SharedStream& stream) {
    if (bytes == 0) return cudaSuccess;
    if (!on_device(to, bytes) || !touches(*stream, to)) {
      return cudaErrorInvalidValue;
    }
    enqueue(*stream, Access::all_devices, [=]() -> std::string {
      std::memset(to, value, bytes);
      return {};
    });
    return cudaSuccess;
  });
}

}  // extern "C"
