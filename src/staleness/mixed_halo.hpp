#pragma once

#include <span>
#include <vector>

#include "staleness/stale_halo.hpp"

namespace heliograph {

/// A halo that passes each site on to one of several halos, for steps that compare them.
class MixedHalo final : public Halo {
 public:
  /// All of `sites` belong to `halo`. Halos must outlive the object.
  MixedHalo(std::span<const Site> sites, StaleHalo& halo)
      : rows_(sites.size(), &halo), kept_(sites.size(), &halo) {}

  /// The site, and its partial sums, belong to `halo`.
  void move(const Site& site, StaleHalo& halo) {
    at(rows_, site) = at(kept_, site) = &halo;
    if (site.sums != nullptr) at(rows_, *site.sums) = &halo;
  }
  /// So do the rows that a forward site has sent, from which late gradients were computed.
  void move_kept(const Site& site, StaleHalo& halo) { at(kept_, site) = &halo; }

  void open(const Site& site, const OfferedRows& rows) override {
    StaleHalo& halo = *at(rows_, site);
    halo.open(site, rows);
    halo.release();  // What it held back, another halo's messages would overtake.
  }
  void offer(const Site& site, RowRange rows) override { at(rows_, site)->offer(site, rows); }
  void finish(const Site& site, FunctionRef<void(const PackedRows&)> consume) override {
    at(rows_, site)->finish(site, consume);
  }
  std::optional<PackedRows> received(const Site& site) override {
    return at(rows_, site)->received(site);
  }
  std::int64_t source_epoch(const Site& site, std::int64_t epoch) const override {
    return kept_[static_cast<std::size_t>(site.id)]->source_epoch(site, epoch);
  }
  KeptRows kept(const Site& site, std::int64_t epoch) override {
    return at(kept_, site)->kept(site, epoch);
  }

 private:
  static StaleHalo*& at(std::vector<StaleHalo*>& halos, const Site& site) {
    return halos[static_cast<std::size_t>(site.id)];
  }

  std::vector<StaleHalo*> rows_, kept_;  ///< By site.
};

}  // namespace heliograph
