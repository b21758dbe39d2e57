#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "core/cuda/graph.hpp"
#include "core/cuda/sequence.hpp"

namespace heliograph::cuda {

/// Asks one stream for work that comes again in every epoch. What is asked for between two uses of
/// the stream is a segment; one that comes as it came the last time, as a graph of its own, costs
/// one launch, whatever its kernels are told.
class Replay {
 public:
  /// `stream` is one of `device`.
  Replay(cudaStream_t stream, int device) : stream_(stream), device_(device) {}

  /// The next segment is the first one.
  void begin() { next_ = 0; }

  /// Asks for it at the next flush.
  template <class... Work>
  void add(const Work&... work) {
    asked_.add(work...);
  }
  bool empty() const { return asked_.empty(); }
  /// Ends the segment: the stream is asked for what was added, in order. Throws Error(resource),
  /// after which nothing is left to ask for.
  void flush();

 private:
  struct Segment {
    Sequence work;  ///< As it was asked for the last time.
    std::unique_ptr<Graph> graph;
  };
  void ask(Segment& segment, const Sequence& before);

  cudaStream_t stream_;
  int device_;
  std::vector<Segment> segments_;
  std::size_t next_ = 0;
  Sequence asked_;
};

}  // namespace heliograph::cuda
