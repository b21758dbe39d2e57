#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heliograph/train.hpp"

namespace heliograph {

/// The member `verification` of a line of metrics.jsonl.
nlohmann::ordered_json verification_to_json(const Verification& verification);
/// All but the epoch. Throws nlohmann::json::exception.
Verification verification_from_json(const nlohmann::json& object);

/// Errors of an exchange over all verified epochs of a run, relative, as roots of mean squares.
/// Each is the mean over the epochs in which what is exact is not 0, and NaN without such an epoch.
struct MeanError {
  std::string site;                                 ///< Empty for all exchanges together.
  double gradient = 0, bits_alone = 0, logits = 0;  ///< As VerifiedPart has them.
  std::optional<double> aggregate;                  ///< If all epochs have it.
  double share = 0;  ///< Of the sum of the parts' squared errors of gradients.
};
struct MeanVerification {
  int epochs = 0;  ///< How many were verified.
  MeanError whole;
  std::vector<MeanError> parts;  ///< The largest share first.
  double seconds = 0;            ///< Of all verifications.
  std::int64_t bytes = 0;        ///< Of all verifications.
  /// The largest share that one cause of one exchange has.
  struct Cause {
    std::string site, name;  ///< "bits" or "lag".
    double share = 0;
  };
  Cause largest;
};
MeanVerification mean_verification(std::span<const EpochReport> reports);

/// The member `verification` of a summary; null if no epoch was verified.
nlohmann::ordered_json mean_verification_to_json(const MeanVerification& mean);

}  // namespace heliograph
