#pragma once

#include <cstdint>

#include "comm/communicator.hpp"
#include "heliograph/train.hpp"
#include "layers/parameters.hpp"
#include "train/plan/memory_needs.hpp"
#include "train/plan/run_plan.hpp"

namespace heliograph {

/// Measures the memory of one rank and of its process from loading to the end of training. Every
/// rank has one and makes the calls below in their order, on its own thread.
class RankMemory {
 public:
  /// The references must outlive the object.
  RankMemory(const RunPlan& plan, Communicator& comm);

  /// Loads this rank's part of the training graph, which `account` counts.
  RankData load(MemoryAccount& account);

  /// Resets the peaks of memory use. Called when the buffers of training, which `memory` counts,
  /// are allocated. `to_come`: the bytes that this rank allocates later, to evaluate or as its
  /// guard. Collective. Throws Error(resource), on rank 0, if training does not fit into memory.
  void end_setup(MemoryAccount& memory, const Parameters& parameters, const MemoryNeeds& to_come,
                 const LogCallback& log);

  /// Adds the memory that the ranks held at most to rank 0's `result`. Collective.
  void report(const MemoryAccount& memory, TrainResult& result);

 private:
  const RunPlan& plan_;
  Communicator& comm_;
  const bool measures_process_;  ///< One rank of each process does.
  std::int64_t shard_bytes_ = 0, loading_bytes_ = 0, setup_peak_ = 0;
};

}  // namespace heliograph
