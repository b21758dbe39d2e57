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

/// A composition with memory: runs the steps and holds the activations of one training pass.
/// Weights live in `parameters()`. Only the rank's own thread may use it.
class Network {
 public:
  /// `input`: the input of training; only its shape and number of entries are read.
  Network(const ModelOptions& options, const ModelInput& input, std::int64_t classes,
          std::uint64_t seed, const PassRows& rows, Kernels& kernels, MemoryAccount* account);

  /// The exchanges of a training pass, by id.
  const std::vector<Site>& sites() const { return composition_.sites(); }
  /// As Composition::rank_sums.
  std::int64_t rank_sums() const { return composition_.rank_sums(); }
  Parameters& parameters() { return composition_.parameters(); }
  const Parameters& parameters() const { return composition_.parameters(); }

  /// Training forward: returns the logits (rows x classes), valid until the next forward.
  ConstMatrixView forward(const PassContext& context, const GraphOperator& graph,
                          const ModelInput& input);

  /// The matrix (rows x classes) into which the loss writes dL/dlogits between `forward` and
  /// `backward`; `backward` overwrites it.
  MatrixView logit_gradient();

  /// Overwrites every parameter's gradient. Must follow `forward`. Calls complete(begin, end) as
  /// soon as these values of the flat gradients are final, while the pass goes on. Together the
  /// calls cover the flat gradients once, last layer first, in an order that depends only on the
  /// options. Calls release() when the pass no longer reads the parameters whose gradients it has
  /// completed, so they may change. Ranges have kFewestAnnounced values or end with a parameter.
  void backward(const PassContext& context, const GraphOperator& graph,
                FunctionRef<void(std::int64_t begin, std::int64_t end)> complete,
                FunctionRef<void()> release);
  /// Smaller ranges are announced together with others of their layer.
  static constexpr std::int64_t kFewestAnnounced = 4096;

  /// Runs the model without dropout on any operator; returns the logits (rows x classes), valid
  /// until the next pass. If `embeddings` is not null, the last layer's input is copied there: rows
  /// x embedding_cols() values on the host. Throws Error(usage) if the operator has more rows than
  /// PassRows::most or more halo rows than PassRows::most_halo.
  ConstMatrixView infer(const PassContext& context, const GraphOperator& graph,
                        const ModelInput& input, std::vector<float>* embeddings = nullptr);

  /// The columns of the embeddings, the input of the step that makes the logits; 0 if that reads
  /// the features.
  std::int64_t embedding_cols() const;

  /// The memory of a training pass's activations, free for other use between two training steps.
  std::span<std::byte> idle_memory() const { return memory_.idle(); }

  /// The size in bytes of the widest matrix that one kernel of a training pass hands to another.
  std::int64_t widest_bytes() const;

  struct NonFinite {
    int layer;
    std::int64_t row;
  };
  /// The first activation of the last forward that is NaN or Inf, for the error message.
  std::optional<NonFinite> find_non_finite();
  /// The first row of the logits `y` (rows x classes) that holds a NaN or Inf.
  std::optional<NonFinite> find_non_finite(ConstMatrixView y) const;

 private:
  void begin(PassPart part, std::int64_t rows, std::int64_t halo);
  ConstMatrixView run_forward(PassPart part, const PassContext& context, const GraphOperator& graph,
                              const ModelInput& input, std::vector<float>* embeddings);
  static std::optional<NonFinite> find_non_finite(int layer, ConstMatrixView y);

  Composition composition_;
  PassRows rows_;
  Kernels& kernels_;
  ModelMemory memory_;
  std::vector<RowRange> blocks_;  ///< The row blocks of the current pass.
  /// Ranges of final gradients too small to be announced alone.
  std::vector<std::pair<std::int64_t, std::int64_t>> small_;
  /// The steps whose `backward_rows` backward has still to call, in its order.
  std::vector<int> open_steps_;
};

}  // namespace heliograph
