#pragma once

#include "heliograph/dataset.hpp"
#include "heliograph/log.hpp"

namespace heliograph {

/// Warns of data that are valid, but probably not what the user means: no edges, a single class,
/// no node of class 0, more classes than the nodes can fill, one-hot rows. The data set must be
/// valid.
void warn_of_doubts(const Dataset& dataset, const LogCallback& log);

}  // namespace heliograph
