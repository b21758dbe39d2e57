// Graphs and the capture of streams.

#include <algorithm>
#include <string_view>
#include <utility>

#include "runtime.hpp"

namespace heliograph::cuda_emulation {
namespace {

thread_local Stream* captures = nullptr;  // the stream that this thread captures

bool is_one_of(std::string_view function, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), function) != names.end();
}

}  // namespace

void capture(Stream& stream, Access access, Task run) {
  auto node = std::make_unique<CUgraphNode_st>();
  node->access = access;
  node->run = std::move(run);
  if (!stream.capture->nodes.empty()) node->before = {stream.capture->nodes.back().get()};
  stream.capture->nodes.push_back(std::move(node));
}

bool fits_capture(const char* function, Stream& stream) {
  const bool fits = stream.capture == nullptr ||
                    is_one_of(function, {"cudaLaunchKernel", "cudaMemsetAsync",
                                         "cudaStreamBeginCapture", "cudaStreamEndCapture"});
  if (!fits) stream.capture_broken = true;
  return fits;
}

bool fits_capturing_thread(const char* function) {
  const bool fits = captures == nullptr || !is_one_of(function, {"cudaDeviceSynchronize",
                                                                 "cudaMallocHost", "cudaFreeHost"});
  if (!fits) captures->capture_broken = true;
  return fits;
}

bool fits_captures_of(int device) {
  bool fits = true;
  for (const auto& [handle, stream] : runtime().streams) {
    if (stream->device != device || stream->capture == nullptr) continue;
    stream->capture_broken = true;
    fits = false;
  }
  return fits;
}

void forget_captures() { captures = nullptr; }

std::size_t live_graphs() {
  const std::lock_guard guard(runtime().lock);
  return runtime().graphs.size() + runtime().execs.size();
}

namespace {

using Step = CUgraphExec_st::Step;

Graph* find_graph(cudaGraph_t handle) {
  const auto found = runtime().graphs.find(handle);
  return found == runtime().graphs.end() ? nullptr : found->second.get();
}

cudaGraph_t keep(std::shared_ptr<Graph> graph) {
  const auto handle = reinterpret_cast<cudaGraph_t>(graph.get());
  runtime().graphs.emplace(handle, std::move(graph));
  return handle;
}

bool holds(const Graph& graph, cudaGraphNode_t node) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [&](const auto& n) { return n.get() == node; });
}

cudaError_t add_node(cudaGraphNode_t* handle, cudaGraph_t graph_handle,
                     const cudaGraphNode_t* before, std::size_t count, CUgraphNode_st node) {
  Graph* graph = find_graph(graph_handle);
  if (graph == nullptr || handle == nullptr) return cudaErrorInvalidValue;
  for (std::size_t i = 0; i < count; ++i) {
    if (!holds(*graph, before[i])) return cudaErrorInvalidValue;
    node.before.push_back(before[i]);
  }
  graph->nodes.push_back(std::make_unique<CUgraphNode_st>(std::move(node)));
  *handle = graph->nodes.back().get();
  return cudaSuccess;
}

/// Writes the node that the parameters describe.
cudaError_t make_kernel(const cudaKernelNodeParams& p, CUgraphNode_st& node) {
  const auto known = runtime().kernels.find(p.func);
  if (known == runtime().kernels.end()) return cudaErrorInvalidDeviceFunction;
  if (p.kernelParams == nullptr || p.extra != nullptr) return cudaErrorInvalidValue;
  const cudaError_t error =
      check_launch(known->second, p.gridDim, p.blockDim, p.sharedMemBytes, p.kernelParams);
  if (error != cudaSuccess) return error;
  node.access = Access::own_device;
  node.is_kernel = true;
  node.run = grid_work(known->second, p.gridDim, p.blockDim, p.sharedMemBytes, p.kernelParams);
  return cudaSuccess;
}

/// Adds the nodes in an order that fits: of those that could be next, the one that was added last,
/// so that dependencies that are missing show.
void add_steps(const Graph& graph, bool outer, std::vector<Step>& steps) {
  std::vector<cudaGraphNode_t> done;
  const auto is_done = [&](cudaGraphNode_t node) {
    return std::find(done.begin(), done.end(), node) != done.end();
  };
  while (done.size() < graph.nodes.size()) {
    const auto next = std::find_if(graph.nodes.rbegin(), graph.nodes.rend(), [&](const auto& n) {
      return !is_done(n.get()) && std::all_of(n->before.begin(), n->before.end(), is_done);
    });
    CUgraphNode_st& node = **next;
    if (node.child != nullptr) {
      add_steps(*node.child, false, steps);
    } else {
      steps.push_back({outer ? &node : nullptr, node.access, node.run});
    }
    done.push_back(&node);
  }
}

template <class Body>
cudaError_t exec_call(const char* function, cudaGraphExec_t handle, Body body) {
  return api_call(function, [&]() -> cudaError_t {
    const auto found = runtime().execs.find(handle);
    return found == runtime().execs.end() ? cudaErrorInvalidValue : body(*found->second);
  });
}

std::shared_ptr<Graph> copy_of(const Graph& graph) {
  auto copy = std::make_shared<Graph>();
  std::map<cudaGraphNode_t, cudaGraphNode_t> copies;
  for (const auto& node : graph.nodes) {
    copy->nodes.push_back(std::make_unique<CUgraphNode_st>(*node));
    copies[node.get()] = copy->nodes.back().get();
    for (cudaGraphNode_t& before : copy->nodes.back()->before) before = copies.at(before);
  }
  return copy;
}

}  // namespace
}  // namespace heliograph::cuda_emulation

using namespace heliograph::cuda_emulation;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return stream_call("cudaStreamBeginCapture", handle,
                     [&](const SharedStream& stream) -> cudaError_t {
                       if (mode != cudaStreamCaptureModeThreadLocal)
                         return cudaErrorInvalidValue;  // not emulated
                       if (stream->capture != nullptr || captures != nullptr) {
                         return cudaErrorIllegalState;
                       }
                       stream->capture = std::make_shared<Graph>();
                       stream->capture_broken = false;
                       captures = stream.get();
                       return cudaSuccess;
                     });
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return stream_call("cudaStreamEndCapture", handle,
                     [&](const SharedStream& stream) -> cudaError_t {
                       *graph = nullptr;
                       if (stream->capture == nullptr || captures != stream.get()) {
                         return cudaErrorIllegalState;
                       }
                       captures = nullptr;
                       std::shared_ptr<Graph> captured = std::exchange(stream->capture, nullptr);
                       if (stream->capture_broken) return cudaErrorStreamCaptureInvalidated;
                       *graph = keep(std::move(captured));
                       return cudaSuccess;
                     });
}

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  return api_call("cudaGraphCreate", [&] {
    if (flags != 0) return cudaErrorInvalidValue;
    *graph = keep(std::make_shared<Graph>());
    return cudaSuccess;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return api_call("cudaGraphDestroy", [&] {
    return runtime().graphs.erase(graph) == 1 ? cudaSuccess : cudaErrorInvalidValue;
  });
}
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* handle, cudaGraph_t graph,
                                   const cudaGraphNode_t* before, std::size_t count,
                                   const cudaKernelNodeParams* kernel) {
  return api_call("cudaGraphAddKernelNode", [&] {
    CUgraphNode_st node;
    const cudaError_t error = make_kernel(*kernel, node);
    return error != cudaSuccess ? error : add_node(handle, graph, before, count, std::move(node));
  });
}
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* handle, cudaGraph_t graph,
                                   const cudaGraphNode_t* before, std::size_t count,
                                   const cudaMemsetParams* memory) {
  return api_call("cudaGraphAddMemsetNode", [&] {
    const cudaMemsetParams m = *memory;
    if (m.elementSize != 1 || m.height != 1 || m.width == 0 ||  // others are not emulated
        !on_device(m.dst, m.width)) {
      return cudaErrorInvalidValue;
    }
    CUgraphNode_st node;
    node.access = Access::own_device;
    node.run = [m]() -> std::string {
      std::memset(m.dst, static_cast<int>(m.value), m.width);
      return {};
    };
    return add_node(handle, graph, before, count, std::move(node));
  });
}
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* handle, cudaGraph_t graph,
                                       const cudaGraphNode_t* before, std::size_t count,
                                       cudaGraph_t child) {
  return api_call("cudaGraphAddChildGraphNode", [&] {
    const Graph* inner = find_graph(child);
    if (inner == nullptr || child == graph) return cudaErrorInvalidValue;
    CUgraphNode_st node;
    node.child = copy_of(*inner);
    return add_node(handle, graph, before, count, std::move(node));
  });
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* handle, cudaGraph_t graph_handle,
                                 unsigned long long flags) {
  return api_call("cudaGraphInstantiate", [&] {
    const Graph* graph = find_graph(graph_handle);
    if (graph == nullptr || flags != 0) return cudaErrorInvalidValue;
    auto exec = std::make_unique<CUgraphExec_st>();
    exec->device = current_device;
    add_steps(*graph, true, exec->steps);
    *handle = exec.get();
    runtime().execs.emplace(*handle, std::move(exec));
    return cudaSuccess;
  });
}
cudaError_t cudaGraphUpload(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  return exec_call("cudaGraphUpload", handle, [&](CUgraphExec_st& exec) {
    const SharedStream stream = find_stream(stream_handle);
    const bool fits = stream != nullptr && stream->device == exec.device;
    return fits ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}
// Launches have copies of what was to run: those before are not affected.
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t handle, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* kernel) {
  return exec_call("cudaGraphExecKernelNodeSetParams", handle,
                   [&](CUgraphExec_st& exec) -> cudaError_t {
                     const auto step = std::find_if(exec.steps.begin(), exec.steps.end(),
                                                    [&](const auto& s) { return s.node == node; });
                     if (node == nullptr || step == exec.steps.end() || !node->is_kernel) {
                       return cudaErrorInvalidValue;
                     }
                     CUgraphNode_st changed;
                     const cudaError_t error = make_kernel(*kernel, changed);
                     if (error == cudaSuccess) step->run = std::move(changed.run);
                     return error;
                   });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  return exec_call("cudaGraphLaunch", handle, [&](CUgraphExec_st& exec) -> cudaError_t {
    const SharedStream stream = find_stream(stream_handle);
    if (stream == nullptr || stream->device != exec.device) {
      return cudaErrorInvalidResourceHandle;
    }
    if (stream->capture != nullptr) return cudaErrorStreamCaptureUnsupported;  // not emulated
    if (exec.stream != nullptr && exec.stream != stream) return cudaErrorNotSupported;  // likewise
    for (const auto& step : exec.steps) enqueue(*stream, step.access, step.run);
    exec.stream = stream;
    exec.position = stream->issued;
    return cudaSuccess;
  });
}
// CUDA lets one go that still runs; nothing here may rely on that.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  return exec_call("cudaGraphExecDestroy", handle, [&](CUgraphExec_st& exec) {
    if (exec.stream != nullptr && exec.stream->done < exec.position) return cudaErrorInvalidValue;
    runtime().execs.erase(handle);
    return cudaSuccess;
  });
}

}  // extern "C"
