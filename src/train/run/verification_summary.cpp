#include "train/run/verification_summary.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

namespace heliograph {

using nlohmann::ordered_json;

namespace {

ordered_json error_to_json(const VerifiedError& error) {
  return {{"relative", error.relative}, {"cosine", error.cosine}, {"projection", error.projection}};
}

ordered_json errors_to_json(const VerifiedPart& part) {
  return {{"logits", error_to_json(part.logits)},
          {"gradient", error_to_json(part.gradient)},
          {"gradients", part.gradients}};
}

/// Infinite if it is null, as JSON writes it.
double error_from(const nlohmann::json& value) {
  return value.is_null() ? std::numeric_limits<double>::infinity() : value.get<double>();
}

VerifiedError verified_from(const nlohmann::json& error) {
  const nlohmann::json& cosine = error.at("cosine");
  const nlohmann::json projection = error.value("projection", nlohmann::json());
  return {
      error_from(error.at("relative")), cosine.is_null() ? 0 : cosine.get<double>(),
      projection.is_null() ? std::numeric_limits<double>::quiet_NaN() : projection.get<double>()};
}

VerifiedPart errors_from(const nlohmann::json& object) {
  VerifiedPart part;
  part.logits = verified_from(object.at("logits"));
  part.gradient = verified_from(object.at("gradient"));
  for (const auto& error : object.at("gradients")) part.gradients.push_back(error_from(error));
  return part;
}

ordered_json mean_error_to_json(const MeanError& error) {
  return {{"gradient", error.gradient}, {"logits", error.logits}};
}

/// Squares of relative errors. Epochs in which what is exact is 0 have none.
struct Squares {
  double sum = 0;
  int left_out = 0;

  void add(double relative) {
    if (std::isfinite(relative)) {
      sum += relative * relative;
    } else {
      ++left_out;
    }
  }
  /// The root of their mean over the others of so many epochs.
  double root(int epochs) const {
    return epochs > left_out ? std::sqrt(sum / (epochs - left_out))
                             : std::numeric_limits<double>::quiet_NaN();
  }
};

/// The squares of an exchange, or of all together.
struct SumOfErrors {
  std::string site;
  Squares gradient, bits_alone, logits, aggregate;
  bool has_aggregate = true;

  void add(const VerifiedPart& part) {
    gradient.add(part.gradient.relative);
    bits_alone.add(part.bits_alone);
    logits.add(part.logits.relative);
    has_aggregate = has_aggregate && part.aggregate;
    if (has_aggregate) aggregate.add(part.aggregate->relative);
  }
  MeanError mean(int epochs, double squares) const {
    return {site,
            gradient.root(epochs),
            bits_alone.root(epochs),
            logits.root(epochs),
            has_aggregate ? std::optional(aggregate.root(epochs)) : std::nullopt,
            squares > 0 ? gradient.sum / squares : 0};
  }
};

}  // namespace

ordered_json verification_to_json(const Verification& verification) {
  ordered_json parts = ordered_json::array();
  for (const VerifiedPart& part : verification.parts) {
    ordered_json object{{"site", part.site}};
    object.update(errors_to_json(part));
    object["aggregate"] = part.aggregate ? error_to_json(*part.aggregate) : ordered_json();
    object["bits_alone"] = part.bits_alone;
    parts.push_back(std::move(object));
  }
  return {{"seconds", verification.seconds},
          {"bytes", verification.bytes},
          {"parameters", verification.parameters},
          {"whole", errors_to_json(verification.whole)},
          {"parts", std::move(parts)}};
}

Verification verification_from_json(const nlohmann::json& object) {
  Verification verification;
  object.at("seconds").get_to(verification.seconds);
  object.at("bytes").get_to(verification.bytes);
  object.at("parameters").get_to(verification.parameters);
  verification.whole = errors_from(object.at("whole"));
  for (const auto& stored : object.at("parts")) {
    VerifiedPart& part = verification.parts.emplace_back(errors_from(stored));
    stored.at("site").get_to(part.site);
    part.bits_alone = error_from(stored.at("bits_alone"));
    const nlohmann::json aggregate = stored.value("aggregate", nlohmann::json());
    if (!aggregate.is_null()) part.aggregate = verified_from(aggregate);
  }
  return verification;
}

MeanVerification mean_verification(std::span<const EpochReport> reports) {
  MeanVerification mean;
  SumOfErrors whole;
  std::vector<SumOfErrors> parts;
  for (const EpochReport& report : reports) {
    if (!report.verification) continue;
    ++mean.epochs;
    mean.seconds += report.verification->seconds;
    mean.bytes += report.verification->bytes;
    whole.add(report.verification->whole);
    for (const VerifiedPart& part : report.verification->parts) {
      auto found = std::ranges::find(parts, part.site, &SumOfErrors::site);
      if (found == parts.end()) {
        found = parts.emplace(found);
        found->site = part.site;
      }
      found->add(part);
    }
  }
  double squares = 0;
  for (const SumOfErrors& part : parts) squares += part.gradient.sum;
  mean.whole = whole.mean(mean.epochs, 0);
  for (const SumOfErrors& part : parts) mean.parts.push_back(part.mean(mean.epochs, squares));
  std::ranges::stable_sort(mean.parts, std::greater(), &MeanError::share);
  for (const MeanError& part : mean.parts) {
    // Bits alone explain their part of the square, and lag is put down for the rest.
    const double of_bits = part.gradient > 0 ? std::min(part.bits_alone / part.gradient, 1.0) : 0;
    const double bits = part.share * of_bits * of_bits, lag = part.share - bits;
    if (bits > mean.largest.share) mean.largest = {part.site, "bits", bits};
    if (lag > mean.largest.share) mean.largest = {part.site, "lag", lag};
  }
  return mean;
}

ordered_json mean_verification_to_json(const MeanVerification& mean) {
  if (mean.epochs == 0) return nullptr;
  ordered_json parts = ordered_json::array();
  for (const MeanError& part : mean.parts) {
    ordered_json object{{"site", part.site}};
    object.update(mean_error_to_json(part));
    object["aggregate"] = part.aggregate ? ordered_json(*part.aggregate) : ordered_json();
    object["bits_alone"] = part.bits_alone;
    object["share"] = part.share;
    parts.push_back(std::move(object));
  }
  return {
      {"epochs", mean.epochs},
      {"seconds", mean.seconds},
      {"bytes", mean.bytes},
      {"whole", mean_error_to_json(mean.whole)},
      {"parts", std::move(parts)},
      {"largest",
       {{"site", mean.largest.site}, {"cause", mean.largest.name}, {"share", mean.largest.share}}}};
}

}  // namespace heliograph
