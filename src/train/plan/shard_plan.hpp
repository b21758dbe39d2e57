#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/plan/run_plan.hpp"

namespace heliograph {

/// The plan of a run on a shard directory: of its files only the manifest is read here, and by
/// each rank its own.
class ShardPlan final : public RunPlan {
 public:
  /// What shaped the shards replaces what `options` say of it.
  /// Throws Error: bad_input (a manifest that is missing, damaged or of another version), usage.
  ShardPlan(std::filesystem::path directory, const TrainOptions& options);

  /// Of the data set that the shards were cut from.
  std::string dataset_hash() const override;

  std::int64_t stored_bytes(int rank) const override;

  /// Throws Error: bad_input (a damaged file), mismatch (a file of other shards).
  RankData load(int rank, GraphScope scope, MemoryUse use, MemoryAccount* account) const override;

 private:
  std::filesystem::path directory_;
  nlohmann::json manifest_;
  std::uint64_t identity_ = 0;
  bool directed_ = false;
  std::vector<std::int64_t> stored_bytes_;  ///< By rank.
};

/// The manifest of a shard directory, once its bytes match their checksum. Throws Error(bad_input).
nlohmann::json read_shard_manifest(const std::filesystem::path& directory);

/// The options that shaped the shards in a directory, by flag name. Throws Error(bad_input).
nlohmann::json shaping_options_of(const std::filesystem::path& directory);

}  // namespace heliograph
