#include "core/cuda/replay.hpp"

#include <utility>

#include "core/cuda/runtime.hpp"

namespace heliograph::cuda {

void Replay::flush() {
  if (asked_.empty()) return;
  if (next_ == segments_.size()) segments_.emplace_back();
  Segment& segment = segments_[next_];
  ++next_;
  std::swap(segment.work, asked_);
  try {
    refuse_abandoned_devices();  // the calls below may wait
    ask(segment, asked_);
  } catch (...) {
    asked_.clear();
    segment.work.clear();  // so that a partly changed graph never runs
    throw;
  }
  asked_.clear();
}

void Replay::ask(Segment& segment, const Sequence& before) {
  Sequence& work = segment.work;
  const bool known = work.resembles(before);
  if (!known && segment.graph) {
    check(cudaStreamSynchronize(stream_), "waiting for it");  // the graph may still run
    segment.graph.reset();
  }
  // A graph of one kernel would save no launch.
  if (!known || work.size() == 1) {
    for (std::size_t i = 0; i < work.size(); ++i) work.start(i, stream_);
    return;
  }
  if (!segment.graph) {
    segment.graph = std::make_unique<Graph>(work, stream_, device_);
  } else {
    // Earlier launches keep their arguments.
    for (std::size_t i = 0; i < work.size(); ++i) {
      if (!work.equals(before, i)) segment.graph->set_kernel(i, work);
    }
  }
  segment.graph->launch(stream_, work.name(0));
}

}  // namespace heliograph::cuda
