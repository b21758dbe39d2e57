#include "cli/split.hpp"

#include <fmt/format.h>

#include "heliograph/error.hpp"
#include "heliograph/io.hpp"

namespace heliograph::cli {

Split resolve_split(const Dataset& dataset, const TrainOptions& options) {
  if (options.random_split) {
    return random_split(dataset, options.train_share, options.validation_share, options.test_share,
                        options.split_seed, options.stratified);
  }
  if (static_cast<std::size_t>(options.split) >= dataset.splits.size()) {
    throw Error(ErrorCode::usage, fmt::format("--split {} does not exist: the data set has {}",
                                              options.split, dataset.splits.size()));
  }
  return dataset.splits[static_cast<std::size_t>(options.split)];
}

}  // namespace heliograph::cli
