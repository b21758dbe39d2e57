// Graphs and the capture of streams.

#include <algorithm>
#include <string_view>
#include <utility>

#include "emulation.hpp"
#include "graphs.hpp"
#include "runtime.hpp"

namespace heliograph::cuda_emulation {
namespace {

thread_local Stream* captures = nullptr;  // the stream that this thread captures

}  // namespace

void capture(Stream& stream, Access access, std::function<std::string()> run) {
  auto node = std::make_unique<CUgraphNode_st>();
  node->access = access;
  node->run = std::move(run);
  if (!stream.capture->nodes.empty()) node->before = {stream.capture->nodes.back().get()};
  stream.capture->nodes.push_back(std::move(node));
}

bool fits_capture(const char* function, Stream& stream) {
  if (stream.capture == nullptr) return true;
  for (const std::string_view fit :
       {"cudaLaunchKernel", "cudaMemsetAsync", "cudaStreamBeginCapture", "cudaStreamEndCapture"}) {
    if (fit == function) return true;
  }
  stream.capture_broken = true;
  return false;
}

bool fits_capturing_thread(const char* function) {
  if (captures == nullptr) return true;
  for (const std::string_view unsafe :
       {"cudaDeviceSynchronize", "cudaHostAlloc", "cudaMallocHost", "cudaFreeHost"}) {
    if (unsafe != function) continue;
    captures->capture_broken = true;
    return false;
  }
  return true;
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

namespace emulation = heliograph::cuda_emulation;
using emulation::api_call;
using emulation::runtime;
using SharedStream = std::shared_ptr<emulation::Stream>;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return emulation::stream_call(
      "cudaStreamBeginCapture", handle, [&](const SharedStream& stream) -> cudaError_t {
        if (mode != cudaStreamCaptureModeThreadLocal) return cudaErrorInvalidValue;  // not emulated
        if (stream->capture != nullptr || emulation::captures != nullptr) {
          return cudaErrorIllegalState;
        }
        stream->capture = std::make_shared<emulation::Graph>();
        stream->capture_broken = false;
        emulation::captures = stream.get();
        return cudaSuccess;
      });
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return emulation::stream_call(
      "cudaStreamEndCapture", handle, [&](const SharedStream& stream) -> cudaError_t {
        *graph = nullptr;
        if (stream->capture == nullptr || emulation::captures != stream.get()) {
          return cudaErrorIllegalState;
        }
        emulation::captures = nullptr;
        std::shared_ptr<emulation::Graph> captured = std::exchange(stream->capture, nullptr);
        if (stream->capture_broken) return cudaErrorStreamCaptureInvalidated;
        *graph = emulation::keep(std::move(captured));
        return cudaSuccess;
      });
}

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  return api_call("cudaGraphCreate", [&] {
    if (flags != 0) return cudaErrorInvalidValue;
    *graph = emulation::keep(std::make_shared<emulation::Graph>());
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
    const cudaError_t error = emulation::make_kernel(*kernel, node);
    return error != cudaSuccess
               ? error
               : emulation::add_node(handle, graph, before, count, std::move(node));
  });
}
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* handle, cudaGraph_t graph,
                                   const cudaGraphNode_t* before, std::size_t count,
                                   const cudaMemsetParams* memory) {
  return api_call("cudaGraphAddMemsetNode", [&] {
    const cudaMemsetParams m = *memory;
    if (m.elementSize != 1 || m.height != 1 || m.width == 0 ||  // others are not emulated
        !emulation::on_device(m.dst, m.width)) {
      return cudaErrorInvalidValue;
    }
    CUgraphNode_st node;
    node.access = emulation::Access::own_device;
    node.run = [m]() -> std::string {
      std::memset(m.dst, static_cast<int>(m.value), m.width);
      return {};
    };
    return emulation::add_node(handle, graph, before, count, std::move(node));
  });
}
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* handle, cudaGraph_t graph,
                                       const cudaGraphNode_t* before, std::size_t count,
                                       cudaGraph_t child) {
  return api_call("cudaGraphAddChildGraphNode", [&] {
    const emulation::Graph* inner = emulation::find_graph(child);
    if (inner == nullptr || child == graph) return cudaErrorInvalidValue;
    CUgraphNode_st node;
    node.child = emulation::copy_of(*inner);
    return emulation::add_node(handle, graph, before, count, std::move(node));
  });
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* handle, cudaGraph_t graph_handle,
                                 unsigned long long flags) {
  return api_call("cudaGraphInstantiate", [&] {
    const emulation::Graph* graph = emulation::find_graph(graph_handle);
    if (graph == nullptr || flags != 0) return cudaErrorInvalidValue;
    auto exec = std::make_unique<CUgraphExec_st>();
    exec->device = emulation::current_device;
    emulation::add_steps(*graph, true, exec->steps);
    *handle = exec.get();
    runtime().execs.emplace(*handle, std::move(exec));
    return cudaSuccess;
  });
}
// Launches have copies of what was to run: those before are not affected.
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t handle, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* kernel) {
  return emulation::exec_call(
      "cudaGraphExecKernelNodeSetParams", handle, [&](CUgraphExec_st& exec) -> cudaError_t {
        const auto step = std::find_if(exec.steps.begin(), exec.steps.end(),
                                       [&](const auto& s) { return s.node == node; });
        if (node == nullptr || step == exec.steps.end() || !node->is_kernel) {
          return cudaErrorInvalidValue;
        }
        CUgraphNode_st changed;
        const cudaError_t error = emulation::make_kernel(*kernel, changed);
        if (error == cudaSuccess) step->run = std::move(changed.run);
        return error;
      });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  return emulation::exec_call("cudaGraphLaunch", handle, [&](CUgraphExec_st& exec) -> cudaError_t {
    const SharedStream stream = emulation::find_stream(stream_handle);
    if (stream == nullptr || stream->device != exec.device) {
      return cudaErrorInvalidResourceHandle;
    }
    if (stream->capture != nullptr) return cudaErrorStreamCaptureUnsupported;  // not emulated
    if (exec.stream != nullptr && exec.stream != stream) {
      stream->work.push_back({emulation::Access::none, {}, {}, exec.stream, exec.position});
      ++stream->issued;
    }
    for (const auto& step : exec.steps) emulation::enqueue(*stream, step.access, step.run);
    exec.stream = stream;
    exec.position = stream->issued;
    return cudaSuccess;
  });
}
// CUDA lets one go that still runs; nothing here may rely on that.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  return emulation::exec_call("cudaGraphExecDestroy", handle, [&](CUgraphExec_st& exec) {
    if (exec.stream != nullptr && exec.stream->done < exec.position) return cudaErrorInvalidValue;
    runtime().execs.erase(handle);
    return cudaSuccess;
  });
}

}  // extern "C"
