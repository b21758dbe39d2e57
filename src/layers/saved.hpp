#pragma once

#include <optional>

#include "core/matrix.hpp"

namespace heliograph {

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

}  // namespace heliograph
