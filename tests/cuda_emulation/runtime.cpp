#include "runtime.hpp"

#include <cstdlib>
#include <set>
#include <stdexcept>
#include <string_view>

#include "block.hpp"
#include "nccl_state.hpp"

namespace heliograph::cuda_emulation {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;

/// Never destroyed: other statics may use it while they end.
Runtime& runtime() {
  static auto* const the = new Runtime;
  return *the;
}

int device_count() {
  const char* text = std::getenv("HELIOGRAPH_EMULATED_DEVICES");
  return text == nullptr ? 1 : std::atoi(text);
}

bool device_exists(int device) { return device >= 0 && device < device_count(); }

/// Whether CUDA may make the function wait for all work of the thread's device and of others.
static bool may_wait(std::string_view function) {
  static const std::set<std::string_view> all = {"cudaMalloc",
                                                 "cudaFree",
                                                 "cudaMallocAsync",
                                                 "cudaMallocHost",
                                                 "cudaFreeHost",
                                                 "cudaMemPoolTrimTo",
                                                 "cudaMemPoolSetAccess",
                                                 "cudaGraphInstantiate",
                                                 "cudaGraphUpload",
                                                 "cudaGraphExecDestroy",
                                                 "cublasCreate",
                                                 "cublasDestroy",
                                                 "cudaEventCreateWithFlags"};
  return all.contains(function);
}

static cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

bool advance(Stream& stream, std::int64_t position) {
  Runtime& r = runtime();
  if (stream.at_work) return stream.done >= position;  // Its work waits for what waits for it.
  stream.at_work = true;
  while (stream.done < position && r.broken.empty()) {
    if (stream.work.front().ready && !stream.work.front().ready()) break;
    const Work work = std::move(stream.work.front());
    stream.work.pop_front();
    if (work.access == Access::none) r.memory.close();
    if (work.access == Access::own_device) r.memory.open(stream.device);
    if (work.access == Access::all_devices) r.memory.open_all();
    r.at_work = &stream;
    r.broken = work.run();
    ++stream.done;
  }
  stream.at_work = false;
  r.memory.close();
  return stream.done >= position || !r.broken.empty();
}

cudaError_t broken_or(cudaError_t otherwise) {
  return runtime().broken.empty() ? otherwise : cudaErrorLaunchFailure;
}

cudaError_t finish(Stream& stream, std::int64_t position) {
  if (!advance(stream, position)) {
    runtime().broken = "the host waits for messages of other ranks with everything locked";
  }
  return broken_or(cudaSuccess);
}

void finish_device(int device) {
  for (const auto& [handle, stream] : runtime().streams) {
    if (stream->device == device) finish(*stream);
  }
}

SharedStream find_stream(cudaStream_t handle) {
  if (handle == cudaStreamPerThread) {
    thread_local std::map<int, SharedStream> own;  // by device
    SharedStream& stream = own[current_device];
    if (stream == nullptr) {
      stream = std::make_shared<Stream>();
      stream->device = current_device;
    }
    return stream;
  }
  const auto found = runtime().streams.find(handle);
  return found == runtime().streams.end() ? nullptr : found->second;
}

void enqueue(Stream& stream, Access access, Task run) {
  if (stream.capture != nullptr) return capture(stream, access, std::move(run));
  stream.work.push_back({access, std::move(run), {}});
  ++stream.issued;
}

cudaError_t api_call(const char* function, const std::function<cudaError_t()>& body) {
  if (may_wait(function)) nccl_emulation::call_may_wait(function);
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
  if (!fits_capturing_thread(function)) return remember(cudaErrorStreamCaptureUnsupported);
  return remember(body());
}

cudaError_t check_launch(const KnownKernel& kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
                         void** arguments) {
  if (grid.x == 0 || grid.x > 0x7fffffffU || block.x == 0 || block.x > 1024 || grid.y != 1 ||
      grid.z != 1 || block.y != 1 || block.z != 1) {
    return cudaErrorInvalidConfiguration;
  }
  if (shared_bytes > kMostShared) return cudaErrorInvalidValue;
  runtime().broken = find_host_pointer(kernel, arguments);
  return broken_or(cudaSuccess);
}

/// Of the grid that runs now. Counted by kernel and stream, so that it is the same in each run.
static bool is_backwards(const void* kernel) {
  Runtime& r = runtime();
  const unsigned before = r.at_work->grids[kernel]++;
  return r.order == GridOrder::alternating ? before % 2 == 0 : r.order == GridOrder::backwards;
}

Task grid_work(const KnownKernel& kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
               void** arguments) {
  return [=, body = kernel.type.make(kernel.function, arguments)]() -> std::string {
    const std::string wrong =
        run_grid(grid, block, shared_bytes, is_backwards(kernel.function), body);
    return wrong.empty() ? wrong : wrong + ", in " + kernel.type.name;
  };
}

cudaError_t enqueue_kernel(const KernelType& type, void* kernel, dim3 grid, dim3 block,
                           void** arguments, std::size_t shared_bytes, cudaStream_t handle) {
  return stream_call("cudaLaunchKernel", handle, [&](const SharedStream& stream) -> cudaError_t {
    if (stream->device != current_device) return cudaErrorInvalidResourceHandle;
    const KnownKernel known{type, kernel};
    const cudaError_t error = check_launch(known, grid, block, shared_bytes, arguments);
    if (error != cudaSuccess) return error;
    if (runtime().kernels.emplace(kernel, known).second) {
      nccl_emulation::require_no_messages(std::string("the first launch of ") + type.name);
    }
    enqueue(*stream, Access::own_device, grid_work(known, grid, block, shared_bytes, arguments));
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

std::int64_t host_waits() {
  const std::lock_guard guard(runtime().lock);
  return runtime().host_waits;
}

Copies copies_to_devices() {
  const std::lock_guard guard(runtime().lock);
  return runtime().to_devices;
}

Copies copies_to_host() {
  const std::lock_guard guard(runtime().lock);
  return runtime().to_host;
}

void set_memory(std::size_t bytes) {
  const std::lock_guard guard(runtime().lock);
  runtime().memory.set_limit(bytes);
}

std::size_t live_bytes() {
  const std::lock_guard guard(runtime().lock);
  return runtime().memory.live_bytes();
}

GridOrder order_at_first() {
  const char* order = std::getenv("HELIOGRAPH_GRID_ORDER");
  const std::string_view name = order == nullptr ? "alternating" : order;
  if (name == "alternating") return GridOrder::alternating;
  if (name == "backwards") return GridOrder::backwards;
  if (name == "forwards") return GridOrder::forwards;
  throw std::invalid_argument("HELIOGRAPH_GRID_ORDER is none of forwards, backwards, alternating");
}

void set_order(GridOrder order) {
  const std::lock_guard guard(runtime().lock);
  runtime().order = order;
}

void repair() {
  Runtime& r = runtime();
  const std::lock_guard guard(r.lock);
  r.broken.clear();
  r.failures.clear();
  forget_captures();
  for (auto& [handle, stream] : r.streams) {
    stream->capture.reset();
    stream->work.clear();
    stream->done = stream->issued;
  }
  last_error = cudaSuccess;
}

std::int64_t waiting(cudaStream_t handle) {
  const std::lock_guard guard(runtime().lock);
  const SharedStream stream = find_stream(handle);
  return stream == nullptr ? 0 : stream->issued - stream->done;
}

std::int64_t waiting() {
  const std::lock_guard guard(runtime().lock);
  std::int64_t sum = 0;
  for (const auto& [handle, stream] : runtime().streams) sum += stream->issued - stream->done;
  return sum;
}

}  // namespace heliograph::cuda_emulation
