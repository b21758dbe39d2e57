#pragma once

#include "comm/communicator.hpp"
#include "heliograph/model.hpp"
#include "train/checkpoint/manifest.hpp"
#include "train/plan/run_plan.hpp"

namespace heliograph {

/// Throws Error(mismatch) that names the first rank that differs from rank 0, and the first option,
/// or the data, weights or checkpoint, in which it does. Processes read these for themselves, and
/// messages of ranks that differ may still fit each other. Paths are not compared, as hosts may
/// spell them differently. `weights`: those that ranks begin with, or null. `resumed`: the manifest
/// of the checkpoint to resume, or null. Collective.
void require_agreement(const RunPlan& plan, const Model* weights, const CheckpointManifest* resumed,
                       Communicator& comm);

}  // namespace heliograph
