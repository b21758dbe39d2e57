#pragma once

#include "core/function_ref.hpp"
#include "core/matrix.hpp"
#include "core/packed_rows.hpp"
#include "core/site.hpp"

namespace heliograph {

/// Rows of a rank's inner nodes, of which those of boundary nodes travel. Owned by somebody else.
struct OfferedRows {
  ConstMatrixView values;        ///< Inner nodes x site.cols, encoded.
  const float* scale = nullptr;  ///< By inner node, applied before encoding; null counts as 1.
  ConstMatrixView exact = {};    ///< Inner nodes x site.exact_cols, verbatim; empty for none.
};

/// All that a step knows of other ranks: rows of boundary nodes leave, rows of halo nodes come.
/// Used by one thread, the rank's own. For each site: open, offer until every row was offered,
/// finish, in the same order on every rank.
class Halo {
 public:
  virtual ~Halo() = default;

  /// Begins the exchange of `site`: the boundary nodes' rows are going to be sent.
  virtual void open(const Site& site, const OfferedRows& rows) = 0;

  /// These rows are computed, and may leave. Ranges ascend and together cover every row once, one
  /// empty range where there are none. Rows that were offered stay as they are until `finish`.
  /// Throws Error: numeric (NaN or Inf, with site, node and epoch), peer_lost.
  virtual void offer(const Site& site, RowRange rows) = 0;

  /// Waits for the halo rows that this pass uses and hands them to `consume`, one block of
  /// columns after the other; the blocks cover every column once. The packed rows are valid
  /// during the call only. With no halo on this rank, `consume` may not be called at all.
  virtual void finish(const Site& site, FunctionRef<void(const PackedRows&)> consume) = 0;
};

}  // namespace heliograph
