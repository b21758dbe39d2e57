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

/// A value by number: rows of a model's nodes, written by one step and read by later ones.
using ValueId = int;
inline constexpr ValueId kNoValue = -1;

/// A matrix that a step uses while it works.
struct Scratch {
  int id = -1;
};
/// What a step's forward keeps for its backward.
struct Kept {
  int id = -1;
};
/// What a step's sums over neighbours use, as the run sums.
struct SumScratch {
  Scratch accumulator, bf16_rows;
};

/// The parts of passes that have memory of their own: training's two, and inference.
enum class PassPart : std::uint8_t { forward, backward, inference };
inline constexpr int kPassParts = 3;

/// Consecutive steps whose rows a forward pass makes together, block after block. The step behind
/// the last one, if any, gathers, and is offered each block.
struct Stretch {
  int first;
  int end;
};

/// How many rows passes have, and in how many blocks forward makes them.
struct PassRows {
  std::int64_t training = 0;  ///< Inner nodes of the training shard.
  std::int64_t most = 0;      ///< Of any pass, inference included.
  std::int64_t blocks = 1;
};

/// What forward leaves for backward passes through here: fp32 rows, in memory of somebody else.
class Saved {
 public:
  Saved() = default;
  explicit Saved(MatrixView place) : place_(place) {}

  /// Whether there is anything to leave.
  bool used() const { return place_.has_value(); }
  /// Where forward writes.
  MatrixView place() const { return *place_; }
  /// What backward reads.
  ConstMatrixView restore() const { return *place_; }

 private:
  std::optional<MatrixView> place_;
};

/// The memory of a model's passes: what backward needs of forward, and scratch whose pieces share
/// places where their times allow it. All of it is made at once, before the first pass.
class ModelMemory {
 public:
  /// `inputs`: of training, in the model's order; only their shapes and numbers of entries count.
  ModelMemory(const Composition& model, const PassRows& rows, std::span<const FeatureView> inputs,
              MemoryAccount* account);

  const std::vector<Stretch>& stretches() const { return stretches_; }
  /// Where training keeps what backward needs: anybody's between two training steps.
  std::span<std::byte> idle() const { return kept_memory_.as<std::byte>(); }

  /// Begins a part of a pass over `rows` nodes.
  void begin(PassPart part, std::int64_t rows);
  PassPart part() const { return part_; }

  const FeatureView& read(ValueId v) const { return views_[index(v)]; }
  void set(ValueId v, const FeatureView& view) { views_[index(v)] = view; }
  /// Where forward writes a value.
  MatrixView write(ValueId v);
  /// The same in training, of one with the structure of `input`: its entries where that is sparse.
  MatrixView write_dropped(ValueId v, const FeatureView& input);
  /// What backward reads of a kept value, or of an input.
  FeatureView restore(ValueId v) const;

  template <class T>
  BasicMatrixView<T> scratch(Scratch s) const {
    const Place& place = scratch_[index(s.id)];
    return {reinterpret_cast<T*>(at(place)), rows_, place.cols, padded_stride<T>(place.cols)};
  }
  MatrixView keep(Kept k) const;
  ConstMatrixView restore(Kept k) const { return kept_[index(k.id)].saved.restore(); }

  /// dL/dv; without data where Composition::Value::has_gradient is false.
  MatrixView gradient(ValueId v) const { return matrix(values_[index(v)].place); }
  /// Where a step writes its part of a gradient: the first step to come writes the gradient itself,
  /// others write beside it, and `add_parts` adds.
  MatrixView gradient_part(ValueId v, int step) const;
  void add_parts(int step, Kernels& kernels) const;

 private:
  /// By part of a pass: the piece of scratch, or -1. A value's place in backward is its gradient's.
  struct Place {
    std::int64_t cols = 0;
    std::array<int, kPassParts> pieces{-1, -1, -1};
  };
  struct ValuePlace {
    Place place;
    Saved saved;
    std::vector<std::pair<int, Place>> parts;  ///< By step that writes beside the gradient.
  };
  struct KeptPlace {
    Place place;  ///< In inference.
    Saved saved;
    bool by_column;
  };
  /// Of a value that forward writes.
  MatrixView storage(ValueId v) const;
  static std::size_t index(int id) { return static_cast<std::size_t>(id); }
  int piece(const Place& place) const { return place.pieces[static_cast<std::size_t>(part_)]; }
  std::byte* at(const Place& place) const {
    const int p = piece(place);
    return p < 0 ? nullptr : scratch_memory_.data() + plan_.offset(p);
  }
  MatrixView matrix(const Place& place) const {
    return {reinterpret_cast<float*>(at(place)), rows_, place.cols, padded_stride(place.cols)};
  }

  std::vector<Stretch> stretches_;
  ScratchPlan plan_;
  std::vector<ValuePlace> values_;
  std::vector<Place> scratch_;
  std::vector<KeptPlace> kept_;
  Buffer kept_memory_, scratch_memory_;
  PassPart part_ = PassPart::forward;
  std::int64_t rows_ = 0;
  std::vector<FeatureView> views_;  ///< By value, of the present pass.
};

}  // namespace heliograph
