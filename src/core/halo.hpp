#pragma once

#include <optional>

#include "core/function_ref.hpp"
#include "core/matrix.hpp"
#include "core/packed_rows.hpp"
#include "core/site.hpp"

namespace heliograph {

/// Rows of a rank's inner nodes; those of boundary nodes are sent. Does not own its arrays.
struct OfferedRows {
  ConstMatrixView values;        ///< Inner nodes x site.cols; sent encoded.
  const float* scale = nullptr;  ///< One factor a row, applied before encoding; null counts as 1.
  ConstMatrixView exact = {};    ///< Inner nodes x site.exact_cols, sent as fp32; empty for none.
};

/// A step's interface to other ranks: sends rows of boundary nodes and receives rows of halo nodes.
/// Used by the rank's own thread. For each site call `open`, `offer` until every row was offered,
/// then `finish` or `received`, in the same order on every rank.
class Halo {
 public:
  virtual ~Halo() = default;

  /// Begins the exchange of `site`, which will send the boundary nodes' rows of `rows`.
  virtual void open(const Site& site, const OfferedRows& rows) = 0;

  /// Announces that these rows are computed and may be sent; they must not change until `finish`.
  /// Ranges ascend and cover every row once; a matrix without rows is one empty range.
  /// Throws Error: numeric (NaN or Inf, with site, node and epoch), peer_lost.
  virtual void offer(const Site& site, RowRange rows) = 0;

  /// Waits for the halo rows of this pass and hands them to `consume` in blocks of columns that
  /// cover every encoded column once; each block has all exact columns. The packed rows are valid
  /// only during that call. On a rank without halo nodes `consume` may never be called.
  virtual void finish(const Site& site, FunctionRef<void(const PackedRows&)> consume) = 0;

  /// Where rows are made in blocks: waits for the halo rows of this pass, the first time that it is
  /// called, and returns all of them. They are valid until the second site after this one is
  /// opened, not counting partial sums, and take the place of `finish`. Empty where only `finish`
  /// has them.
  virtual std::optional<PackedRows> received(const Site& /*site*/) { return std::nullopt; }

  /// The epoch in which the halo rows were offered that `site` uses in a pass of `epoch`.
  virtual std::int64_t source_epoch(const Site& /*site*/, std::int64_t epoch) const {
    return epoch;
  }

  /// The rows that this rank sent in the pass of `epoch` at a forward site with Site::keeps_sent,
  /// which are kept as long as another rank may send gradients that it computed from them. Empty if
  /// the others had exactly the rows offered in that pass: at 32 bits without lag.
  virtual KeptRows kept(const Site& /*site*/, std::int64_t /*epoch*/) { return {}; }
};

}  // namespace heliograph
