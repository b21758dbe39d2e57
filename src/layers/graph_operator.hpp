#pragma once

#include "core/buffer.hpp"
#include "core/halo.hpp"
#include "core/kernels.hpp"
#include "core/phase_clock.hpp"
#include "graph/placed_shard.hpp"

namespace heliograph {

/// A power of a node's degree d, counted over the whole graph, its self weight included.
enum class DegreeScale : std::uint8_t {
  one,           ///< 1.
  inverse,       ///< 1 / d; 0 where d is 0.
  inverse_root,  ///< 1 / sqrt(d); 0 where d is 0.
};

/// How rows of neighbours are summed: R (S + self I) C, S the 0/1 structure, R and C diagonal.
struct Propagation {
  DegreeScale row = DegreeScale::one;  ///< R.
  DegreeScale col = DegreeScale::one;  ///< C.
  float self = 0;

  /// Values a node that its scales take.
  int scales() const {
    return (row != DegreeScale::one ? 1 : 0) + (col != DegreeScale::one ? 1 : 0);
  }
};

/// What every step of a pass needs. All references outlive the pass.
struct PassContext {
  Kernels& kernels;
  Halo& halo;
  PhaseClock& times;
  Clock clock;
  std::uint64_t seed = 0;
};

/// Memory beside an aggregation, as large as what is summed; each may be left out.
struct AggregationScratch {
  AccumulatorView accumulator;  ///< Sums are kept in fp64.
  Bf16View bf16;                ///< Inner rows are summed as bf16; not with an accumulator.
};

/// One rank's rows of the normalised adjacency R (S + self I) C, S the 0/1 structure.
class GraphOperator {
 public:
  /// The shard must outlive the operator; `kernels` are those of every pass, on the shard's device.
  /// `account`: of its memory.
  GraphOperator(const PlacedShard& shard, Kernels& kernels, const Propagation& propagation,
                MemoryUse use, MemoryAccount* account);

  const PlacedShard& shard() const { return shard_; }
  std::int64_t rows() const { return shard_.shard().inner_rows; }

  // A site's direction says with what: A (forward) or A^T (backward).

  /// Opens the exchange of x, the rows of this rank's inner nodes, that `sum` will sum.
  void open(const PassContext& pass, const Site& site, ConstMatrixView x) const;

  /// out = A x or A^T x for this rank's rows, once all rows of x were offered to the halo. Halo
  /// rows travel while the inner block is aggregated and while `overlap` runs, which may add to
  /// `out` and must not touch x. Where kernels sum in fp64, `overlap` runs last.
  void sum(const PassContext& pass, const Site& site, ConstMatrixView x, MatrixView out,
           const AggregationScratch& scratch, FunctionRef<void()> overlap) const;

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
  float scale(DegreeScale scale, std::size_t row) const;

  const PlacedShard& shard_;
  Propagation propagation_;
  Blocks in_, out_;
  Buffer row_scale_, col_scale_;
};

}  // namespace heliograph
