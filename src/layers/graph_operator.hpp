#pragma once

#include <memory>

#include "core/buffer.hpp"
#include "core/halo.hpp"
#include "core/kernels.hpp"
#include "core/phase_clock.hpp"
#include "graph/placed_shard.hpp"
#include "heliograph/options.hpp"

namespace heliograph {

/// What every step of a pass needs. All references outlive the pass.
struct PassContext {
  Kernels& kernels;
  Halo& halo;
  PhaseClock& clock;
  std::int64_t epoch = 0;
  std::uint64_t seed = 0;
  /// Scratch for rows x padded_stride<std::uint16_t>(cols) values of any x that is aggregated:
  /// inner rows are then summed as bf16. Null: as fp32.
  std::uint16_t* stored_rows = nullptr;
};

/// One rank's rows of the normalised adjacency R (S + self I) C, S the 0/1 structure.
/// GCN: R = C = D^-1/2 with self-loops counted in D (Kipf and Welling, 2017, eq. 2).
/// GraphSAGE-mean: R = D^-1, C = I, no self-loop (Hamilton, Ying and Leskovec, 2017, algorithm 1).
class GraphOperator {
 public:
  /// The shard must outlive the operator; `kernels` are those of every pass, on the shard's device.
  /// `account`: of its memory.
  GraphOperator(const PlacedShard& shard, Kernels& kernels, ModelKind kind, MemoryRoom room,
                MemoryAccount* account);

  const PlacedShard& shard() const { return shard_; }
  std::int64_t rows() const { return shard_.shard().inner_rows; }

  /// out = A x (forward) or A^T x (backward) for this rank's rows; x holds its inner nodes.
  /// Halo rows travel while the inner block is aggregated and while `overlap` runs, which may
  /// add to `out` and must not touch x. With an accumulator (rows x cols) sums are kept in fp64,
  /// `overlap` runs last, and the pass has no stored_rows.
  void apply(const PassContext& pass, Direction direction, int layer, ConstMatrixView x,
             bool nonnegative, MatrixView out, AccumulatorView accumulator,
             FunctionRef<void()> overlap) const;

  /// C x for sparse x: what the other ranks need of this rank's rows.
  SparseRows scale_columns(const SparseView& x) const;
  /// R (S + self I) applied to scaled sparse rows, inner and halo; sums in fp64, columns ascend.
  SparseRows sum_sparse(const SparseView& inner, const SparseView& halo) const;

 private:
  /// An adjacency's blocks for aggregation.
  struct Blocks {
    GatherBlocks inner, halo;
  };
  const Blocks& blocks(Direction direction) const {
    return direction == Direction::forward || !shard_.shard().out ? in_ : out_;
  }
  /// R or C at a row, both from its degree.
  float row_scale(std::size_t row) const;

  const PlacedShard& shard_;
  ModelKind kind_;
  bool self_;
  Blocks in_, out_;
  Buffer row_scale_, col_scale_;
};

}  // namespace heliograph
