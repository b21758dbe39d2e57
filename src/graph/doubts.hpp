#pragma once

#include "heliograph/dataset.hpp"
#include "heliograph/log.hpp"

namespace heliograph {

/// Warns of data that are valid, but probably not what the user means: no edges, a single class,
/// no node of class 0, more classes than the nodes can fill, one-hot rows. The data set must be
/// valid. `learns`: whether its labels are to be learned; of others only the graph matters.
void warn_of_doubts(const Dataset& dataset, bool learns, const LogCallback& log);

}  // namespace heliograph
