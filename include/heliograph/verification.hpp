#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heliograph {

/// The distance of values m from exact ones g: 0, 1 and 1 if they are equal and g is not 0.
struct VerifiedError {
  double relative = 0;  ///< |m - g| / |g|; infinite if g is 0.
  double cosine = 1;    ///< Of the angle between them; 0 if either is 0.
  /// <m, g> / <g, g>, whose mean over draws is 1 if m is unbiased; 0 if g is 0. NaN if it
  /// comes from a checkpoint that lacks it.
  double projection = 1;
};

/// The error that exchanges as trained make in a step.
struct VerifiedPart {
  std::string site;  ///< The exchange (ExchangeSite); empty for all together.
  /// Of the sums over neighbours that the exchange is for; none for all together and for attention,
  /// which weighs neighbours by their rows. Empty if it comes from a checkpoint that lacks it.
  std::optional<VerifiedError> aggregate;
  VerifiedError logits;           ///< Of the logits of all nodes of the training graph.
  VerifiedError gradient;         ///< Of all weight gradients together, before they are clipped.
  std::vector<double> gradients;  ///< VerifiedError::relative by parameter.
  /// That of the gradient if the exchange has its bits, but rows of the same epoch. 0 for all
  /// together.
  double bits_alone = 0;
};

/// A step of training, compared with the step from the same weights and dropout masks whose halo
/// rows are complete, of its own epoch, and fp32 (TrainOptions::verify_every).
struct Verification {
  int epoch = 0;
  VerifiedPart whole;                   ///< All exchanges as trained.
  std::vector<VerifiedPart> parts;      ///< One exchange as trained, the others exact.
  std::vector<std::string> parameters;  ///< Names, in the order of VerifiedPart::gradients.
  double seconds = 0;                   ///< Wall time on rank 0; no part of the epoch's.
  std::int64_t bytes = 0;               ///< Sent by all ranks for it; no part of the epoch's.
};

}  // namespace heliograph
