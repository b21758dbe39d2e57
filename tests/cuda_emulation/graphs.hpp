#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "streams.hpp"

// Graphs of the emulated runtime: what they hold, apart from the calls.

namespace heliograph::cuda_emulation {
struct Graph;
}

/// Handles point to these.
struct CUgraphNode_st {
  heliograph::cuda_emulation::Access access = heliograph::cuda_emulation::Access::none;
  std::function<std::string()> run;  ///< Empty for a graph in the graph.
  std::shared_ptr<heliograph::cuda_emulation::Graph> child;
  std::vector<cudaGraphNode_t> before;
  bool is_kernel = false;
};

struct CUgraphExec_st {
  struct Step {
    cudaGraphNode_t node;  ///< Of the graph of which this was made; null: of one inside of it.
    heliograph::cuda_emulation::Access access;
    std::function<std::string()> run;
  };
  std::vector<Step> steps;
  int device = 0;
  /// The end of the last launch.
  std::shared_ptr<heliograph::cuda_emulation::Stream> stream;
  std::int64_t position = 0;
};

namespace heliograph::cuda_emulation {

/// Nodes in the order in which they were added.
struct Graph {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
};

}  // namespace heliograph::cuda_emulation
