#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "heliograph/options.hpp"
#include "heliograph/train.hpp"

namespace heliograph {

/// Leading epochs that timings leave out: 5 of more than 10, else none.
int dropped_epochs(std::size_t epochs);

/// The value below which `share` (0 to 1) of `values` lie, interpolated linearly between
/// neighbours in order; 0 for none. The median is 0.5.
double quantile(std::span<const double> values, double share);

/// One line of metrics.jsonl, without the newline.
nlohmann::ordered_json epoch_to_json(const EpochReport& report);

nlohmann::ordered_json partition_to_json(const PartitionQuality& quality);
/// Throws nlohmann::json::exception.
PartitionQuality partition_from_json(const nlohmann::json& object);

/// What --summary and the `result` of run.json hold (docs/run_directory.md).
nlohmann::ordered_json summarize(const TrainResult& result, const TrainOptions& options);

}  // namespace heliograph
