#pragma once

#include <string>

#include "comm/exchange/halo_exchange.hpp"
#include "core/site.hpp"

namespace heliograph::test {

/// The site that the first exchange of a layer declares.
inline Site site(int id, int layer, Direction direction, std::int64_t cols,
                 bool nonnegative = false) {
  Site s;
  s.id = id;
  s.layer = layer;
  s.direction = direction;
  s.name = "layers." + std::to_string(layer) +
           (direction == Direction::forward ? ".forward" : ".backward");
  s.key = site_key(layer, direction);
  s.cols = cols;
  s.nonnegative = nonnegative;
  return s;
}

/// Opens an exchange and offers all rows at once.
inline void start(HaloExchange& exchange, HaloSlot& slot, const Codec& codec, std::int64_t epoch,
                  const OfferedRows& rows, PhaseClock& times) {
  exchange.open(slot, codec, {epoch}, rows, times);
  exchange.offer({0, rows.values.rows}, times);
}

}  // namespace heliograph::test
