#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heliograph/model.hpp"
#include "train/checkpoint/run_state.hpp"
#include "train/host_values.hpp"
#include "train/trainer.hpp"

namespace heliograph {

/// A tensor whose values lie elsewhere.
struct NamedTensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::span<float> values;
};

/// The weights of a trainer by name, where the host can read and write them; equal on every rank.
/// The trainer must outlive the object.
class HostWeights {
 public:
  explicit HostWeights(Trainer& trainer);
  std::span<const NamedTensor> tensors() const { return tensors_; }
  /// Gives the trainer what was written to the tensors.
  void store() { values_.store(); }

 private:
  HostValues<float> values_;
  std::vector<NamedTensor> tensors_;
};

/// The trainer's weights after `epoch`, as a model without scores.
Model make_model(const RunPlan& plan, Trainer& trainer, int epoch);
/// Copies the trainer's weights to a model with the same tensors, without allocating tensors anew.
void copy_weights(Trainer& trainer, Model& model);
/// Throws Error(mismatch) that names `origin` and a tensor unless names and shapes of the tensors
/// are those of the trainer's.
void require_tensors(const Model& model, const std::string& origin, Trainer& trainer);
/// Gives the trainer the weights of `model`. Throws as `require_tensors`, before anything is
/// copied.
void set_weights(const Model& model, const std::string& origin, Trainer& trainer);

// What a checkpoint holds of a trainer, beside its weights. Only a new trainer may be read into.
// Reading throws Error(bad_input) that names file and section.

/// What `comm`'s rank alone holds after state.epochs epochs: counts of what it sent, the halo
/// rows that later epochs use, and its share of the optimizer's state. Writing waits for messages
/// in flight. `evaluation_bytes`: the count to store, without what saving has sent.
void write_rank(Trainer& trainer, const RunState& state, std::int64_t evaluation_bytes,
                const Communicator& comm, StateWriter& file);
void read_rank(const StateFile& file, const Communicator& comm, Trainer& trainer, RunState& state);

}  // namespace heliograph
