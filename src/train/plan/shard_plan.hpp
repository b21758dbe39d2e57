#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/plan/run_plan.hpp"

namespace heliograph {

/// The plan of a run on a shard directory. Every process reads the manifest, and each rank its own
/// file.
class ShardPlan final : public RunPlan {
 public:
  /// Options that are fixed in the shards replace those in `options`.
  /// Throws Error: bad_input (a manifest that is missing, damaged or of another version), usage,
  /// mismatch (features that were normalised with other statistics than the purpose's).
  ShardPlan(std::filesystem::path directory, const TrainOptions& options, PlanPurpose purpose = {});

  /// Trains or scores with the purpose's target statistics, if it has any, and the exchange of the
  /// run that it resumes. Throws Error(mismatch) if features were normalised with other statistics.
  void use(const PlanPurpose& purpose);

  /// The hash of the data set that the shards were made from.
  std::string dataset_hash() const override;

  std::int64_t stored_bytes(int rank) const override;

  /// Throws Error: bad_input (a damaged file), mismatch (a file of other shards).
  RankData load(int rank, GraphScope scope, MemoryUse use, MemoryAccount* account) const override;

 private:
  std::filesystem::path directory_;
  nlohmann::json manifest_;
  std::uint64_t identity_ = 0;
  std::vector<std::int64_t> stored_bytes_;  ///< By rank.
};

/// Reads and verifies the manifest of a shard directory. Throws Error(bad_input).
nlohmann::json read_shard_manifest(const std::filesystem::path& directory);

/// The options that are fixed in a directory's shards, by flag name. Throws Error(bad_input).
nlohmann::json shaping_options_of(const std::filesystem::path& directory);

}  // namespace heliograph
