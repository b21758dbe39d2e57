#include "core/cuda/replay.hpp"

#include <algorithm>
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
    segment.repeated = false;
    throw;
  }
  asked_.clear();
}

void Replay::ask(Segment& segment, const Sequence& before) {
  Sequence& work = segment.work;
  const bool known = work.resembles(before);
  if (!known && segment.graph) outdated_.push_back(std::move(segment.graph));
  if (!segment.graph) {
    segment.repeated = known && work.size() > 1;  // A graph of one kernel would save no launch.
    for (std::size_t i = 0; i < work.size(); ++i) work.start(i, stream_);
    return;
  }
  // Earlier launches keep their arguments.
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (!work.equals(before, i)) segment.graph->set_kernel(i, work);
  }
  segment.graph->launch(stream_, work.name(0));
}

bool Replay::can_record() const {
  return !outdated_.empty() || std::any_of(segments_.begin(), segments_.end(),
                                           [](const Segment& s) { return s.repeated; });
}

void Replay::record() {
  outdated_.clear();
  for (Segment& segment : segments_) {
    if (!std::exchange(segment.repeated, false)) continue;
    segment.graph = std::make_unique<Graph>(segment.work, stream_, device_);
  }
}

}  // namespace heliograph::cuda
