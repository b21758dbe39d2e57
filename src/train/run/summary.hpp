#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>

#include "heliograph/options.hpp"
#include "heliograph/train.hpp"

namespace heliograph {

/// The number of first epochs that timings leave out: 5 of more than 10 epochs, otherwise 0.
int dropped_epochs(std::size_t epochs);

/// The value below which `share` (0 to 1) of `values` lie, by linear interpolation between sorted
/// values; 0 if there are no values. A share of 0.5 gives the median.
double quantile(std::span<const double> values, double share);

/// One line of metrics.jsonl, without the newline.
nlohmann::ordered_json epoch_to_json(const EpochReport& report);

nlohmann::ordered_json partition_to_json(const PartitionQuality& quality);
/// Throws nlohmann::json::exception.
PartitionQuality partition_from_json(const nlohmann::json& object);
nlohmann::ordered_json covers_to_json(const CoverCounts& covers);
/// Throws nlohmann::json::exception.
CoverCounts covers_from_json(const nlohmann::json& object);

/// The bytes of an epoch on the link from one rank to another that has most: node rows and weight
/// gradients, mean over epochs; 0 for one rank.
std::int64_t busiest_link_bytes(const TrainResult& result, int ranks);
/// The seconds that a link of `gbps` Gbit/s takes for `bytes`.
inline double link_seconds(std::int64_t bytes, double gbps) {
  return 8e-9 * static_cast<double>(bytes) / gbps;
}

/// The contents of --summary and of `result` in run.json (docs/run_directory.md).
nlohmann::ordered_json summarize(const TrainResult& result, const TrainOptions& options);

/// Whether the file `path` holds what `summarize` makes.
bool is_summary(const std::filesystem::path& path);

}  // namespace heliograph
