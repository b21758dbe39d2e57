#include "core/cuda/graph.hpp"

#include <string>

#include "core/cuda/captures.hpp"
#include "core/cuda/runtime.hpp"

namespace heliograph::cuda {
namespace {

constexpr const char* kMaking = "making a graph of kernels";

}  // namespace

// Errors are ignored: an earlier call has reported them, or no caller is left to tell.
void Graph::Destroy::operator()(cudaGraph_t graph) const noexcept {
  if (!devices_abandoned()) cudaGraphDestroy(graph);
}
void Graph::Destroy::operator()(cudaGraphExec_t graph) const noexcept {
  if (!devices_abandoned()) cudaGraphExecDestroy(graph);
}

Graph::OwnedGraph Graph::empty_graph() {
  cudaGraph_t graph = nullptr;
  check(cudaGraphCreate(&graph, 0), kMaking);
  return OwnedGraph(graph);
}

Graph::Graph(Sequence& work, cudaStream_t stream, int device)
    : device_(device), graph_(empty_graph()) {
  nodes_.reserve(work.size());
  for (std::size_t i = 0; i < work.size(); ++i) {
    nodes_.push_back(add(work, i, stream, nodes_.empty() ? nullptr : &nodes_.back()));
  }
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, graph_.get(), 0), kMaking);
  exec_.reset(exec);
  check(cudaGraphUpload(exec, stream), kMaking);  // else the first launch does it
  check(cudaStreamSynchronize(stream), kMaking);
}

cudaGraphNode_t Graph::add(Sequence& work, std::size_t i, cudaStream_t stream,
                           const cudaGraphNode_t* before) {
  const std::size_t count = before == nullptr ? 0 : 1;
  cudaGraphNode_t node = nullptr;
  switch (work.kind(i)) {
    case Sequence::Kind::kernel: {
      const cudaKernelNodeParams kernel = work.kernel_node(i);
      check(cudaGraphAddKernelNode(&node, graph_.get(), before, count, &kernel), work.name(i));
      break;
    }
    case Sequence::Kind::clear: {
      const cudaMemsetParams memory = work.clear_node(i);
      check(cudaGraphAddMemsetNode(&node, graph_.get(), before, count, &memory), work.name(i));
      break;
    }
    case Sequence::Kind::library: {
      const OwnedGraph captured = capture(work, i, stream);
      check(cudaGraphAddChildGraphNode(&node, graph_.get(), before, count, captured.get()),
            work.name(i));
      break;
    }
  }
  return node;
}

// Captures the work that library item `i` would put on the stream.
Graph::OwnedGraph Graph::capture(Sequence& work, std::size_t i, cudaStream_t stream) const {
  const auto held = hold_for_capture(device_);
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), kMaking);
  cudaGraph_t graph = nullptr;
  try {
    work.start(i, stream);
  } catch (...) {
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) Destroy()(graph);
    cudaGetLastError();  // clears the error, which the next check would report otherwise
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph), work.name(i));
  return OwnedGraph(graph);
}

void Graph::set_kernel(std::size_t i, Sequence& work) {
  const cudaKernelNodeParams kernel = work.kernel_node(i);
  check(cudaGraphExecKernelNodeSetParams(exec_.get(), nodes_[i], &kernel), work.name(i));
}

void Graph::launch(cudaStream_t stream, const char* first) {
  const cudaError_t status = cudaGraphLaunch(exec_.get(), stream);
  if (status == cudaSuccess) return;
  check(status, (std::string("a graph that begins with ") + first).c_str());
}

}  // namespace heliograph::cuda
