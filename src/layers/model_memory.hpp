#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/buffer.hpp"
#include "core/kernels.hpp"
#include "layers/feature_matrix.hpp"
#include "layers/scratch_plan.hpp"

namespace heliograph {

class Composition;

/// The number of a value: a matrix of node rows that one step writes and later steps read.
using ValueId = int;
inline constexpr ValueId kNoValue = -1;

/// A matrix that a step needs only while it runs.
struct Scratch {
  int id = -1;
};
/// A matrix that a step's forward saves for its backward.
struct Saved {
  int id = -1;
};
/// The scratch of a step's sums over neighbours; which of the two exist depends on the run's
/// options.
struct SumScratch {
  Scratch accumulator, bf16_rows;
};

/// The parts of passes that have memory of their own: forward and backward of training, and
/// inference.
enum class PassPart : std::uint8_t { forward, backward, inference };
inline constexpr int kPassParts = 3;

/// Steps [first, end), which a forward pass runs together on one block of rows after the other. The
/// step `end`, if there is one, gathers and is offered each block.
struct Stretch {
  int first;
  int end;
};

/// How many rows passes have, and in how many blocks they make them.
struct PassRows {
  std::int64_t training = 0;  ///< Inner nodes of the training shard.
  std::int64_t most = 0;      ///< The largest number of rows of any pass, inference included.
  std::int64_t blocks = 1;
  std::int64_t training_halo = 0;  ///< Halo nodes of the training shard.
  std::int64_t most_halo = 0;      ///< The largest number of halo nodes of any pass.
  std::int64_t backward_halo = 0;  ///< Halo nodes of training's backward exchanges.
  bool partial_sums = false;       ///< Whether exchanges also send partial sums (covers).
};

/// The nodes of which a matrix has rows.
enum class MatrixRows : std::uint8_t {
  inner,
  all,            ///< Inner nodes, then halo nodes.
  backward_halo,  ///< Halo nodes of backward exchanges; of matrices that only backward uses.
};

/// The memory of a model's passes: the matrices that forward saves for backward, and scratch, where
/// matrices that are never in use at the same time share memory. All of it is allocated at once,
/// before the first pass.
class ModelMemory {
 public:
  /// `inputs`: the inputs of training, in the model's order; only their shapes and numbers of
  /// entries are read. `account` counts the memory.
  ModelMemory(const Composition& model, const PassRows& rows, std::span<const FeatureView> inputs,
              MemoryAccount* account);

  const std::vector<Stretch>& stretches() const { return stretches_; }
  /// The memory of all saved matrices, free for other use between two training steps.
  std::span<std::byte> idle() const { return saved_memory_.as<std::byte>(); }

  /// Begins a part of a pass over `rows` inner and `halo` halo nodes.
  void begin(PassPart part, std::int64_t rows, std::int64_t halo = 0);
  PassPart part() const { return part_; }

  const FeatureView& read(ValueId v) const { return views_[index(v)]; }
  void set(ValueId v, const FeatureView& view) { views_[index(v)] = view; }
  /// The matrix into which forward writes value `v`.
  MatrixView write(ValueId v);
  /// The matrix into which training writes value `v`, which is `input` after dropout. If `input` is
  /// sparse, the matrix is one row of its entries' values.
  MatrixView write_dropped(ValueId v, const FeatureView& input);
  /// Backward's view of a saved value or of an input.
  FeatureView saved(ValueId v) const;
  /// The matrix that a step's forward writes and, in training, its backward reads.
  MatrixView saved(Saved s) const;

  template <class T>
  BasicMatrixView<T> scratch(Scratch s) const {
    const Region& region = scratch_[index(s.id)];
    return {reinterpret_cast<T*>(at(region)), rows_of(region), region.cols,
            padded_stride<T>(region.cols)};
  }

  /// dL/dv. Its data is null if Composition::Value::has_gradient is false.
  MatrixView gradient(ValueId v) const { return matrix(values_[index(v)].scratch); }
  /// The matrix into which a step writes its part of dL/dv: the gradient itself for the first step
  /// that backward runs, a matrix of its own for each other step.
  MatrixView gradient_part(ValueId v, int step) const;
  /// Adds these rows of the parts that `step` has written beside gradients to those gradients.
  void add_parts(int step, RowRange rows, Kernels& kernels) const;

 private:
  /// The scratch memory of one matrix: for each part of a pass its piece of the plan, or -1.
  struct Region {
    std::int64_t cols = 0;
    MatrixRows rows = MatrixRows::inner;
    std::array<int, kPassParts> pieces{-1, -1, -1};
  };
  struct ValueMemory {
    Region scratch;  ///< The value in forward and inference, its gradient in backward.
    std::optional<MatrixView> saved;            ///< The value in forward, if backward needs it.
    std::vector<std::pair<int, Region>> parts;  ///< Parts of the gradient, by the step that writes.
  };
  struct SavedMemory {
    Region inference;
    MatrixView training;
    bool by_column;
    std::int64_t rows = 0;  ///< Not 0: a fixed number of rows.
  };
  /// The matrix into which the current pass writes value `v`.
  MatrixView storage(ValueId v) const;
  static std::size_t index(int id) { return static_cast<std::size_t>(id); }
  std::byte* at(const Region& region) const {
    const int piece = region.pieces[static_cast<std::size_t>(part_)];
    return piece < 0 ? nullptr : scratch_memory_.data() + plan_.offset(piece);
  }
  std::int64_t rows_of(const Region& region) const {
    if (region.rows == MatrixRows::backward_halo) return backward_halo_;
    return rows_ + (region.rows == MatrixRows::all ? halo_ : 0);
  }
  MatrixView matrix(const Region& region) const {
    return {reinterpret_cast<float*>(at(region)), rows_of(region), region.cols,
            padded_stride(region.cols)};
  }

  std::vector<Stretch> stretches_;
  ScratchPlan plan_;
  std::vector<ValueMemory> values_;
  std::vector<Region> scratch_;
  std::vector<SavedMemory> saved_;
  Buffer saved_memory_, scratch_memory_;
  PassPart part_ = PassPart::forward;
  std::int64_t rows_ = 0, halo_ = 0, backward_halo_ = 0;
  std::vector<FeatureView> views_;  ///< The values of the current pass.
};

}  // namespace heliograph
