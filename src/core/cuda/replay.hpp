#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "core/cuda/graph.hpp"
#include "core/cuda/sequence.hpp"

namespace heliograph::cuda {

/// Gives one stream work that is repeated in every epoch. The work between two uses of the stream
/// is a segment. `record` makes a CUDA graph of a segment that resembles that of the epoch before,
/// and later epochs launch it, whatever the arguments of its kernels, until the segment changes.
class Replay {
 public:
  /// `stream` is a stream of `device`.
  Replay(cudaStream_t stream, int device) : stream_(stream), device_(device) {}

  /// Begins an epoch: the next segment is the first one.
  void begin() { next_ = 0; }
  /// Whether `record` would make or free graphs.
  bool can_record() const;
  /// Makes and uploads the graphs of repeated segments, and frees those of segments that have
  /// changed. The stream must be idle. Throws Error(resource).
  void record();

  /// Adds work to the current segment.
  template <class... Work>
  void add(const Work&... work) {
    asked_.add(work...);
  }
  bool empty() const { return asked_.empty(); }
  /// Ends the segment and gives its work to the stream, in order. Throws Error(resource), after
  /// which the segment is empty.
  void flush();

 private:
  struct Segment {
    Sequence work;  ///< The work of the last epoch.
    std::unique_ptr<Graph> graph;
    bool repeated = false;  ///< Whether the work has come twice in a row and has no graph.
  };
  void ask(Segment& segment, const Sequence& before);

  cudaStream_t stream_;
  int device_;
  std::vector<Segment> segments_;
  std::size_t next_ = 0;
  Sequence asked_;
  std::vector<std::unique_ptr<Graph>> outdated_;  ///< Freeing one may wait for devices.
};

}  // namespace heliograph::cuda
