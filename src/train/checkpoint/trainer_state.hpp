#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/device.hpp"
#include "heliograph/model.hpp"
#include "train/checkpoint/run_state.hpp"
#include "train/trainer.hpp"

namespace heliograph {

/// Values of a device where the host can read them: the values themselves if the device is the
/// host, otherwise a copy. The device and its values must outlive the object.
template <class T>
class HostValues {
 public:
  HostValues(std::span<T> values, Device& device)
      : device_(device), values_(values), view_(values) {
    if (device.on_host()) return;
    copy_.resize(values.size());
    device.download(copy_.data(), values.data(), values.size_bytes());
    view_ = copy_;
  }
  HostValues(const HostValues&) = delete;
  HostValues& operator=(const HostValues&) = delete;

  std::span<T> view() const { return view_; }
  /// Gives the device what was written to `view`.
  void store() {
    if (!device_.on_host()) device_.upload(values_.data(), view_.data(), values_.size_bytes());
  }

 private:
  Device& device_;
  std::span<T> values_;
  std::vector<std::remove_const_t<T>> copy_;
  std::span<T> view_;
};

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
