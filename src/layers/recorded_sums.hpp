#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/buffer.hpp"
#include "core/site.hpp"

namespace heliograph {

/// The sums over neighbours that one step makes at some of its sites. On the host. Attention, which
/// weighs rows itself, makes none.
class RecordedSums {
 public:
  /// Makes room for so many values, padding included. `rows`: the rank's inner nodes. `sites`: the
  /// number of all sites.
  RecordedSums(std::int64_t values, std::int64_t rows, std::size_t sites, MemoryAccount* account)
      : rows_(rows),
        values_(static_cast<std::size_t>(values) * sizeof(float), MemoryUse::evaluation, account),
        sums_(sites) {}

  /// Records the sums of these sites, which fit, and no others, from the next step on.
  void record(std::span<const Site> sites) {
    std::ranges::fill(sums_, MatrixView{});
    float* values = values_.as<float>().data();
    for (const Site& site : sites) {
      sums_[at(site)] = {values, rows_, site.cols, padded_stride(site.cols)};
      values += rows_ * padded_stride(site.cols);
    }
  }

  /// Copies the sums of a site's inner rows, or of all its rows, if the site is recorded.
  void begin(const Site& site, ConstMatrixView sums) {
    const MatrixView copy = of(site);
    for (std::int64_t r = 0; r < copy.rows; ++r) {
      std::copy_n(sums.row(r), sums.cols, copy.row(r));
    }
  }
  /// The sums of a site; without columns if they are not recorded.
  MatrixView of(const Site& site) const { return sums_[at(site)]; }

 private:
  static std::size_t at(const Site& site) { return static_cast<std::size_t>(site.id); }

  std::int64_t rows_;
  Buffer values_;
  std::vector<MatrixView> sums_;  ///< By site.
};

}  // namespace heliograph
