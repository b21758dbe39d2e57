#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

#include "core/cuda/sequence.hpp"

namespace heliograph::cuda {

/// A Sequence as a CUDA graph, which one call launches. Each item follows the one before.
class Graph {
 public:
  /// Builds the graph of `work`, capturing library calls on `stream`, a stream of `device`. All
  /// kernels of `work`, including the libraries', must have run before, since none can be loaded
  /// during a capture. CUDA takes device memory for the graph from no pool, for which it may wait
  /// for all work of all devices; `stream` is idle afterwards. Throws Error(resource).
  Graph(Sequence& work, cudaStream_t stream, int device);

  /// Replaces kernel `i` by that of `work` in later launches. Throws Error(resource).
  void set_kernel(std::size_t i, Sequence& work);
  /// Launches the graph on `stream`. Throws Error(resource) that names `first`, its first item.
  void launch(cudaStream_t stream, const char* first);

 private:
  struct Destroy {
    void operator()(cudaGraph_t graph) const noexcept;
    void operator()(cudaGraphExec_t graph) const noexcept;
  };
  using OwnedGraph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, Destroy>;
  using OwnedExec = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy>;

  static OwnedGraph empty_graph();
  OwnedGraph capture(Sequence& work, std::size_t i, cudaStream_t stream) const;
  cudaGraphNode_t add(Sequence& work, std::size_t i, cudaStream_t stream,
                      const cudaGraphNode_t* before);

  int device_;
  OwnedGraph graph_;  ///< Owns the handles in `nodes_`.
  std::vector<cudaGraphNode_t> nodes_;
  OwnedExec exec_;
};

}  // namespace heliograph::cuda
