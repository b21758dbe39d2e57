#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

#include "core/cuda/sequence.hpp"

namespace heliograph::cuda {

/// A sequence as a CUDA graph: one call asks for all of it. Each item follows the one before.
class Graph {
 public:
  /// Takes memory of the device, which CUDA counts to no pool. All kernels of `work` must have run
  /// before: what loads with a first launch (the library's kernels too) may not while a call of a
  /// library is captured on `stream`, which is one of `device`. Throws Error(resource).
  Graph(Sequence& work, cudaStream_t stream, int device);

  /// Makes kernel `i` that of `work`, for launches from now on. Throws Error(resource).
  void set_kernel(std::size_t i, Sequence& work);
  /// `first`: what it begins with. Throws Error(resource) that names it.
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
  OwnedGraph graph_;  ///< Nodes are known by it.
  std::vector<cudaGraphNode_t> nodes_;
  OwnedExec exec_;
};

}  // namespace heliograph::cuda
