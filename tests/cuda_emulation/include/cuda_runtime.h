#pragma once

// The part of the CUDA runtime that the device sources use, emulated on the CPU. The thread that
// waits for a device does its work (see tests/cuda_emulation/emulation.hpp).

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#define __host__
#define __device__
#define __global__
#define __shared__ __thread  // only as `extern`: what a launch asks for
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)

// NOLINTBEGIN: names are CUDA's.

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

/// The indices of the device thread that runs. All launches have one dimension.
extern constinit thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

#define HELIOGRAPH_EMULATED_VECTOR(name, type, bytes2, bytes4)     \
  struct __align__(bytes2) name##2 {                               \
    type x, y;                                                     \
  };                                                               \
  struct __align__(bytes4) name##4 {                               \
    type x, y, z, w;                                               \
  };                                                               \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; } \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
HELIOGRAPH_EMULATED_VECTOR(float, float, 8, 16)
HELIOGRAPH_EMULATED_VECTOR(int, int, 8, 16)
HELIOGRAPH_EMULATED_VECTOR(uint, unsigned, 8, 16)
HELIOGRAPH_EMULATED_VECTOR(ushort, unsigned short, 4, 8)
HELIOGRAPH_EMULATED_VECTOR(uchar, unsigned char, 2, 4)
#undef HELIOGRAPH_EMULATED_VECTOR

// Host: errors, devices, streams, events, memory.

#define HELIOGRAPH_EMULATED_ERRORS(ERROR)       \
  ERROR(cudaSuccess, 0)                         \
  ERROR(cudaErrorInvalidValue, 1)               \
  ERROR(cudaErrorMemoryAllocation, 2)           \
  ERROR(cudaErrorInvalidConfiguration, 9)       \
  ERROR(cudaErrorInvalidMemcpyDirection, 21)    \
  ERROR(cudaErrorInsufficientDriver, 35)        \
  ERROR(cudaErrorInvalidDeviceFunction, 98)     \
  ERROR(cudaErrorNoDevice, 100)                 \
  ERROR(cudaErrorInvalidDevice, 101)            \
  ERROR(cudaErrorInvalidResourceHandle, 400)    \
  ERROR(cudaErrorIllegalState, 401)             \
  ERROR(cudaErrorNotReady, 600)                 \
  ERROR(cudaErrorLaunchFailure, 719)            \
  ERROR(cudaErrorNotSupported, 801)             \
  ERROR(cudaErrorStreamCaptureUnsupported, 900) \
  ERROR(cudaErrorStreamCaptureInvalidated, 901) \
  ERROR(cudaErrorUnknown, 999)
enum cudaError_t : int {
#define HELIOGRAPH_EMULATED_ERROR(name, value) name = value,
  HELIOGRAPH_EMULATED_ERRORS(HELIOGRAPH_EMULATED_ERROR)
#undef HELIOGRAPH_EMULATED_ERROR
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4
};
enum cudaDeviceAttr {
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMemoryPoolsSupported = 115
};
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold = 4 };
enum cudaMemLocationType { cudaMemLocationTypeDevice = 1 };
enum cudaMemAccessFlags { cudaMemAccessFlagsProtNone = 0, cudaMemAccessFlagsProtReadWrite = 3 };
enum cudaMemoryType {
  cudaMemoryTypeUnregistered = 0,
  cudaMemoryTypeHost = 1,
  cudaMemoryTypeDevice = 2
};
struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
  void* devicePointer;
  void* hostPointer;
};
struct cudaMemLocation {
  cudaMemLocationType type;
  int id;
};
struct cudaMemAccessDesc {
  cudaMemLocation location;
  cudaMemAccessFlags flags;
};

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
using cudaMemPool_t = struct CUmemPoolHandle_st*;
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphNode_t = struct CUgraphNode_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;
#define cudaStreamPerThread (reinterpret_cast<cudaStream_t>(0x2))

enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
struct cudaKernelNodeParams {
  void* func;
  dim3 gridDim;
  dim3 blockDim;
  unsigned sharedMemBytes;
  void** kernelParams;
  void** extra;
};
struct cudaMemsetParams {
  void* dst;
  std::size_t pitch;
  unsigned value;
  unsigned elementSize;
  std::size_t width;
  std::size_t height;
};

constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2;

extern "C" {
const char* cudaGetErrorString(cudaError_t error);
const char* cudaGetErrorName(cudaError_t error);
cudaError_t cudaGetLastError();

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t kept);
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* access,
                                 std::size_t count);
cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                                 cudaMemLocation* location);
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest);
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);

cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream);
cudaError_t cudaMalloc(void** pointer, std::size_t bytes);
cudaError_t cudaFree(void* pointer);
cudaError_t cudaMallocHost(void** pointer, std::size_t bytes);
cudaError_t cudaFreeHost(void* pointer);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer);
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                std::size_t bytes, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                   const cudaGraphNode_t* before, std::size_t count,
                                   const cudaKernelNodeParams* kernel);
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                   const cudaGraphNode_t* before, std::size_t count,
                                   const cudaMemsetParams* memory);
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                       const cudaGraphNode_t* before, std::size_t count,
                                       cudaGraph_t child);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags = 0);
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* kernel);
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
}

template <class T>
cudaError_t cudaMallocAsync(T** pointer, std::size_t bytes, cudaStream_t stream) {
  return cudaMallocAsync(reinterpret_cast<void**>(pointer), bytes, stream);
}
template <class T>
cudaError_t cudaMallocHost(T** pointer, std::size_t bytes) {
  return cudaMallocHost(reinterpret_cast<void**>(pointer), bytes);
}

namespace heliograph::cuda_emulation {

/// What one device thread of a kernel does, with a copy of the arguments.
using MakeThread = std::function<void()> (*)(void* kernel, void** arguments);

struct KernelType {
  const char* name;  ///< For messages.
  MakeThread make;
  std::span<const std::size_t> sizes;  ///< Of the arguments.
};

/// Launches a kernel. Graphs may hold it from now on, which do not say its type.
cudaError_t enqueue_kernel(const KernelType& type, void* kernel, dim3 grid, dim3 block,
                           void** arguments, std::size_t shared_bytes, cudaStream_t stream);

template <class... Parameters>
std::function<void()> make_thread(void* kernel, void** arguments) {
  const auto copy = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::tuple<std::remove_const_t<Parameters>...>(
        *static_cast<std::remove_const_t<Parameters>*>(arguments[I])...);
  };
  return
      [function = reinterpret_cast<void (*)(Parameters...)>(kernel),
       values = copy(std::index_sequence_for<Parameters...>())] { std::apply(function, values); };
}
template <class... Parameters>
inline constexpr std::array<std::size_t, sizeof...(Parameters)> kSizes{sizeof(Parameters)...};
template <class... Parameters>
constexpr KernelType type_of(const char* name, void (*)(Parameters...)) {
  return {name, &make_thread<Parameters...>, kSizes<Parameters...>};
}

/// What lanes of a warp wait for together.
enum class Meeting : std::uint8_t { none, block, warp, shuffle, shuffle_xor, ballot };

void meet_block();
/// Waits for the lanes of `mask`. Returns the `value` of another lane, or the vote.
std::uint64_t meet_warp(Meeting what, unsigned mask, std::uint64_t value, int argument, int width);

template <class T>
T shuffle(Meeting what, unsigned mask, T value, int argument, int width) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = meet_warp(what, mask, bits, argument, width);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace heliograph::cuda_emulation

template <class Kernel>
cudaError_t cudaLaunchKernel(Kernel* kernel, dim3 grid, dim3 block, void** arguments,
                             std::size_t shared_bytes, cudaStream_t stream) {
  return heliograph::cuda_emulation::enqueue_kernel(
      heliograph::cuda_emulation::type_of(__PRETTY_FUNCTION__, kernel),
      reinterpret_cast<void*>(kernel), grid, block, arguments, shared_bytes, stream);
}

// Device: barriers, warp calls, atomics of integers.

inline void __syncthreads() { heliograph::cuda_emulation::meet_block(); }
inline void __syncwarp(unsigned mask = 0xffffffffU) {
  heliograph::cuda_emulation::meet_warp(heliograph::cuda_emulation::Meeting::warp, mask, 0, 0, 32);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  using namespace heliograph::cuda_emulation;
  return shuffle(Meeting::shuffle, mask, value, source, width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  using namespace heliograph::cuda_emulation;
  return shuffle(Meeting::shuffle_xor, mask, value, lanes, width);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  using namespace heliograph::cuda_emulation;
  return static_cast<unsigned>(meet_warp(Meeting::ballot, mask, predicate != 0 ? 1 : 0, 0, 32));
}
// Blocks run one after another on one CPU thread, so plain reads and writes are atomic.
#define HELIOGRAPH_EMULATED_ATOMIC(name, changed)                               \
  template <class T>                                                            \
  requires std::is_integral_v<T> T name(T* at, std::type_identity_t<T> value) { \
    const T old = *at;                                                          \
    *at = static_cast<T>(changed);                                              \
    return old;                                                                 \
  }
HELIOGRAPH_EMULATED_ATOMIC(atomicAdd, old + value)
HELIOGRAPH_EMULATED_ATOMIC(atomicMin, value < old ? value : old)
HELIOGRAPH_EMULATED_ATOMIC(atomicMax, value > old ? value : old)
#undef HELIOGRAPH_EMULATED_ATOMIC

// NOLINTEND
