#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "heliograph/shards.hpp"

namespace heliograph {

/// As the public write_shards; the manifest also holds `reading`: by flag, how the data were read.
void write_shards(const Dataset& dataset, const Partition& partition, const TrainOptions& options,
                  const std::filesystem::path& directory, bool overwrite,
                  const nlohmann::ordered_json& reading);

}  // namespace heliograph
