#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device_memory.hpp"
#include "emulation.hpp"

// Declarations that the calls of the emulated runtime share. The runtime's lock guards all of them.

namespace heliograph::cuda_emulation {

/// The device memory that a piece of work may touch.
enum class Access : std::uint8_t { none, own_device, all_devices };

/// Does a piece of work. Returns what went wrong, or an empty string.
using Task = std::function<std::string()>;

struct Work {
  Access access = Access::none;
  Task run;
  std::function<bool()> ready;  ///< If set, the stream waits here until it returns true.
};

struct Graph;

struct Stream {
  int device = 0;
  std::shared_ptr<Graph> capture;  ///< If set, work of the stream is added to it instead.
  bool capture_broken = false;
  std::deque<Work> work;
  std::map<const void*, unsigned> grids;  ///< How many grids of each kernel have run.
  std::int64_t issued = 0;
  std::int64_t done = 0;
  bool at_work = false;  ///< Whether some of its work is looked at or runs.
};
using SharedStream = std::shared_ptr<Stream>;

/// Nodes in the order in which they were added.
struct Graph {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
};

}  // namespace heliograph::cuda_emulation

// The objects to which the handles point.
struct CUevent_st {
  int device = 0;
  heliograph::cuda_emulation::SharedStream stream;  ///< Null until the event is recorded.
  std::int64_t position = 0;
  std::chrono::steady_clock::time_point recorded;
};

struct CUgraphNode_st {
  heliograph::cuda_emulation::Access access = heliograph::cuda_emulation::Access::none;
  heliograph::cuda_emulation::Task run;  ///< Empty if the node is a graph.
  std::shared_ptr<heliograph::cuda_emulation::Graph> child;
  std::vector<cudaGraphNode_t> before;
  bool is_kernel = false;
};

struct CUgraphExec_st {
  struct Step {
    cudaGraphNode_t node;  ///< Null for a node of a nested graph.
    heliograph::cuda_emulation::Access access;
    heliograph::cuda_emulation::Task run;
  };
  std::vector<Step> steps;
  int device = 0;
  heliograph::cuda_emulation::SharedStream stream;  ///< The stream of the last launch.
  std::int64_t position = 0;  ///< The position in `stream` after the last launch.
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

struct Runtime {
  std::recursive_mutex lock;
  DeviceMemory memory;
  std::map<std::uintptr_t, std::size_t> pinned;
  std::map<cudaStream_t, SharedStream> streams;
  std::map<cudaEvent_t, std::unique_ptr<CUevent_st>> events;
  std::map<cudaGraph_t, std::shared_ptr<Graph>> graphs;
  std::map<cudaGraphExec_t, std::unique_ptr<CUgraphExec_st>> execs;
  std::map<void*, KnownKernel> kernels;
  std::map<std::string, std::int64_t> calls;
  std::int64_t host_waits = 0;
  Copies to_devices, to_host;
  std::multimap<std::string, OrderedFailure> failures;
  GridOrder order = order_at_first();
  Stream* at_work = nullptr;  ///< The stream whose work runs.
  std::string broken;         ///< A kernel's error, if any. Every call then fails, as on a device.
};

Runtime& runtime();

extern thread_local cudaError_t last_error;
extern thread_local int current_device;

int device_count();
bool device_exists(int device);

/// Counts the call and, unless the call must fail, runs `body` with the lock held. Stores the error
/// in last_error.
cudaError_t api_call(const char* function, const std::function<cudaError_t()>& body);

/// The stream behind a handle; null if there is none.
SharedStream find_stream(cudaStream_t handle);
void enqueue(Stream& stream, Access access, Task run);
/// Adds work to the graph that `stream` captures, behind the work that it captured before.
void capture(Stream& stream, Access access, Task run);
/// Does the work of `stream` up to a position. False if some of it has to wait for other threads.
bool advance(Stream& stream, std::int64_t position);
/// Does the work of `stream` up to a position. Breaks the device if some of it has to wait for
/// other threads.
cudaError_t finish(Stream& stream, std::int64_t position);
inline cudaError_t finish(Stream& stream) { return finish(stream, stream.issued); }
/// Does all the work of a device.
void finish_device(int device);
cudaError_t broken_or(cudaError_t otherwise);

/// Whether a device accepts such a launch. If a real device would fail only while the kernel runs,
/// breaks the device.
cudaError_t check_launch(const KnownKernel& kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
                         void** arguments);
/// Makes the work of a launch.
Task grid_work(const KnownKernel& kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
               void** arguments);
/// Describes the argument of the kernel that holds an address of ordinary host memory, which would
/// work in the emulation but not on a device. Returns an empty string if there is none.
std::string find_host_pointer(const KnownKernel& kernel, void** arguments);

/// Whether [pointer, pointer + bytes) is device memory.
bool on_device(const void* pointer, std::size_t bytes);
/// Whether `device` is `other` or can access its memory.
bool reaches(int device, int other);
/// Whether pools let `device` itself touch this memory.
bool pool_is_open(const void* pointer, int device);

/// Whether `function` may be called for a stream that captures. If not, the capture is broken, as
/// in CUDA, which captures more than is emulated: copies, events, memory.
bool fits_capture(const char* function, Stream& stream);
/// Whether `function` may be called by a thread that captures. If not, the capture is broken.
bool fits_capturing_thread(const char* function);
/// Whether no stream of a device captures, so that the device may be waited for. If one does, its
/// capture is broken.
bool fits_captures_of(int device);
/// Forgets the captures of the calling thread.
void forget_captures();

/// Does the same as api_call, with the stream behind `handle`.
template <class Body>
cudaError_t stream_call(const char* function, cudaStream_t handle, Body body) {
  return api_call(function, [&]() -> cudaError_t {
    const SharedStream stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return fits_capture(function, *stream) ? body(stream) : cudaErrorStreamCaptureUnsupported;
  });
}

}  // namespace heliograph::cuda_emulation
