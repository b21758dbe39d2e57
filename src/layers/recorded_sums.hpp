#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/buffer.hpp"
#include "core/site.hpp"

namespace heliograph {

/// The sums over neighbours that one step makes at its sites, each with as many rows as the rank
/// has inner nodes. On the host. Attention, which weighs rows itself, makes none.
class RecordedSums {
 public:
  /// Records those of all sites, or of one.
  explicit RecordedSums(std::size_t sites) : sums_(sites) {}
  RecordedSums(std::size_t sites, const Site& only) : sums_(sites), only_(only.id) {}

  /// Copies the sums of a site's inner rows, or of all its rows.
  void begin(const Site& site, ConstMatrixView sums) {
    if (only_ >= 0 && site.id != only_) return;
    Matrix& copy = sums_[static_cast<std::size_t>(site.id)];
    copy = Matrix(sums.rows, sums.cols, MemoryUse::evaluation, nullptr);
    for (std::int64_t r = 0; r < sums.rows; ++r) {
      std::copy_n(sums.row(r), sums.cols, copy.view().row(r));
    }
  }
  /// What has been recorded of a site; without columns if nothing has.
  MatrixView of(const Site& site) const { return sums_[static_cast<std::size_t>(site.id)].view(); }

 private:
  std::vector<Matrix> sums_;  ///< By site.
  int only_ = -1;
};

}  // namespace heliograph
