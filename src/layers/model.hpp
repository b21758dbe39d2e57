#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "layers/compose.hpp"
#include "layers/composition.hpp"
#include "layers/model_memory.hpp"

namespace heliograph {

/// A composition with memory: runs its steps, and holds the activations of one training pass.
/// Weights live in `parameters()`. Used by the rank's own thread.
class Model {
 public:
  /// `input`: of training, or its shape and number of entries.
  Model(const ModelOptions& options, const ModelInput& input, std::int64_t classes,
        std::uint64_t seed, const PassRows& rows, Kernels& kernels, MemoryAccount* account);

  /// What a training pass exchanges with other ranks, by id.
  const std::vector<Site>& sites() const { return composition_.sites(); }
  Parameters& parameters() { return composition_.parameters(); }
  const Parameters& parameters() const { return composition_.parameters(); }

  /// Training forward: returns the logits (rows x classes), valid until the next forward.
  ConstMatrixView forward(const PassContext& context, const GraphOperator& graph,
                          const ModelInput& input);

  /// Where the loss writes dL/dlogits between `forward` and `backward`, which overwrites it.
  MatrixView logit_gradient();

  /// Fills every parameter's gradient (overwriting). Must follow `forward`.
  /// complete(begin, end): these values of the flat gradients are whole. Called as soon as they
  /// are, last layer first, while the pass goes on; together the calls cover the flat gradients
  /// once, in an order that depends on the options alone.
  void backward(const PassContext& context, const GraphOperator& graph,
                FunctionRef<void(std::int64_t begin, std::int64_t end)> complete);

  /// Inference without dropout on any operator; returns logits, valid until the next pass. The
  /// operator's rows must not exceed PassRows::most: throws Error(usage).
  ConstMatrixView infer(const PassContext& context, const GraphOperator& graph,
                        const ModelInput& input);

  /// Where a training pass keeps its activations: anybody's between two training steps.
  std::span<std::byte> idle_memory() const { return memory_.idle(); }

  /// Bytes of the widest matrix that lies between two kernels of a training pass.
  std::int64_t widest_bytes() const;

  struct NonFinite {
    int layer;
    std::int64_t row;
  };
  /// The first activation of the last forward that is NaN or Inf; for the error message.
  std::optional<NonFinite> find_non_finite();
  /// The same in the logits `y`.
  std::optional<NonFinite> find_non_finite(ConstMatrixView y) const;

 private:
  void begin(PassPart part, std::int64_t rows);
  ConstMatrixView run_forward(const Pass& pass);
  void set_inputs(const ModelInput& input);
  static std::optional<NonFinite> find_non_finite(int layer, ConstMatrixView y);

  Composition composition_;
  PassRows rows_;
  Kernels& kernels_;
  ModelMemory memory_;
  std::vector<RowRange> blocks_;                              ///< Of the present pass.
  std::vector<std::pair<std::int64_t, std::int64_t>> small_;  ///< Gradients to be announced.
};

}  // namespace heliograph
