#pragma once

#include <span>

#include "core/buffer.hpp"
#include "core/halo.hpp"
#include "core/kernels.hpp"
#include "core/phase_clock.hpp"
#include "core/rank_sum.hpp"
#include "graph/placed_shard.hpp"
#include "layers/recorded_sums.hpp"

namespace heliograph {

/// A power of a node's degree d: the self weight plus the number of its in-neighbours in the graph
/// or, if edges have weights, the sum of their weights.
enum class DegreeScale : std::uint8_t {
  one,           ///< The scale is 1.
  inverse,       ///< The scale is 1 / d, or 0 if d is 0.
  inverse_root,  ///< The scale is 1 / sqrt(d), or 0 if d is 0.
};

/// How rows of neighbours are summed: R (S + self I) C, where S is the graph's adjacency with the
/// weights of its edges, or 1, and R and C are diagonal.
struct Propagation {
  DegreeScale row = DegreeScale::one;  ///< The diagonal of R.
  DegreeScale col = DegreeScale::one;  ///< The diagonal of C.
  float self = 0;                      ///< The weight of a node's own row.
  bool sums = true;  ///< Whether rows are summed like this; attention weighs entries.

  /// How many scale values each node needs in memory: 0, 1 or 2.
  int scales() const {
    return (row != DegreeScale::one ? 1 : 0) + (col != DegreeScale::one ? 1 : 0);
  }
};

/// What every step of a pass needs. The references must outlive the pass.
struct PassContext {
  Kernels& kernels;
  Halo& halo;
  PhaseClock& times;
  Clock clock;
  std::uint64_t seed = 0;
  RankSum* rank_sum =
      nullptr;  ///< For sums over the rows of all ranks; null in inference and on a single rank.
  RecordedSums* recorded = nullptr;  ///< If given, keeps the sums over neighbours.
};

/// Scratch of an aggregation, each matrix with as many rows and columns as the sums. Either may be
/// left out, and only one may be given.
struct AggregationScratch {
  AccumulatorView accumulator;  ///< If given, sums accumulate in it in fp64.
  Bf16View bf16;  ///< If given, inner rows are rounded to bf16 before they are summed.
};

/// One rank's rows of the normalised adjacency A = R (S + self I) C (see Propagation).
class GraphOperator {
 public:
  /// The shard must outlive the operator. `kernels` are those of every pass and run on the shard's
  /// device; `account` counts that device's memory.
  GraphOperator(const PlacedShard& shard, Kernels& kernels, const Propagation& propagation,
                MemoryUse use, MemoryAccount* account);

  const PlacedShard& shard() const { return shard_; }
  std::int64_t rows() const { return shard_.shard().inner_rows; }
  std::int64_t halo_rows() const { return shard_.shard().in.plan.halo_rows; }

  /// Places what depends on the shard's blocks again, after these have changed.
  void place_blocks(Kernels& kernels, MemoryUse use, MemoryAccount* account);

  /// Makes room for the partial sums of exchanges of up to `cols` columns, if the shard has such.
  void reserve_sums(std::int64_t cols, MemoryUse use, MemoryAccount* account);

  /// Offers these rows of x, the rows of this rank's inner nodes, to the halo for a later `sum`;
  /// opens the exchange with the first ones. After the last ones it makes and offers the site's
  /// partial sums. Ranges are those of Halo::offer.
  void offer(const PassContext& pass, const Site& site, ConstMatrixView x, RowRange rows) const;

  /// Begins out = A x at a forward site and A^T x at a backward site, for this rank's rows, which
  /// `add_halo` ends. All rows of x must have been offered to the halo. Halo rows travel while the
  /// inner block is aggregated and while `overlap` runs, which may add to `out` but must not change
  /// x. If kernels sum in fp64, this adds the halo too and `overlap` runs last.
  void begin_sum(const PassContext& pass, const Site& site, ConstMatrixView x, MatrixView out,
                 const AggregationScratch& scratch, FunctionRef<void()> overlap) const;
  /// Adds the halo's part of these rows of `out`. Ranges are those of Halo::offer. The first one
  /// waits for halo rows, and adds all rows' parts where they are not at hand row by row.
  void add_halo(const PassContext& pass, const Site& site, MatrixView out, RowRange rows) const;

  /// The factor of each inner row's sum in a direction, on the device; empty if all are 1.
  std::span<const float> sum_scales(Direction direction) const {
    return (direction == Direction::forward ? row_scale_ : col_scale_).as<float>();
  }

  /// C x for sparse x: the scaled rows that this rank sends to other ranks.
  SparseRows scale_columns(const SparseView& x) const;
  /// R (S + self I) times scaled sparse inner and halo rows. Sums in fp64; each row of the result
  /// has ascending columns.
  SparseRows sum_sparse(const SparseView& inner, const SparseView& halo) const;

 private:
  /// The gather blocks of one adjacency.
  struct Blocks {
    GatherBlocks inner, halo;
  };
  const Blocks& blocks(Direction direction) const {
    return direction == Direction::forward || !shard_.shard().out ? in_ : out_;
  }
  CsrView halo(Direction direction) const;
  /// Adds what a site and its partial sums have received to these rows, or with the first range to
  /// all rows, where it is not at hand row by row.
  void add_received(const PassContext& pass, const Site& site, RowRange rows, MatrixView out,
                    AccumulatorView accumulator) const;
  /// Likewise for one of the two sites, whose rows have these entries. If `recorded` has rows, it
  /// gets the same.
  void add_entries(const PassContext& pass, const Site& site, CsrView entries, RowRange rows,
                   MatrixView out, AccumulatorView accumulator, MatrixView recorded) const;
  double degree(std::size_t row) const;
  float scale(DegreeScale scale, std::size_t row) const;

  const PlacedShard& shard_;
  Propagation propagation_;
  Blocks in_, out_;
  Buffer row_scale_, col_scale_;
  Buffer sums_;  ///< The partial sums of the exchange that is being offered.
};

}  // namespace heliograph
