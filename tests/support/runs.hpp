#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heliograph/train.hpp"

namespace heliograph::test {

/// The options of a run that takes milliseconds: two layers of 16 over contiguous parts. All
/// its exchanges are late if one is.
TrainOptions small_options(int ranks, int epochs);

/// Three ranks with three layers of 40, at 1 bit.
TrainOptions one_bit_options(ModelKind kind, int epochs);

/// The epochs whose report has this member.
template <class Member>
std::vector<int> epochs_with(const TrainResult& result,
                             std::optional<Member> EpochReport::*member) {
  std::vector<int> epochs;
  for (const EpochReport& report : result.epochs) {
    if (report.*member) epochs.push_back(report.epoch);
  }
  return epochs;
}

/// These bits, or the fewest that the model takes if those are more.
Bits bits_for(ModelKind kind, Bits wanted);

/// The name on the command line, which may be part of a test's name.
std::string name_of(ModelKind kind);

std::vector<ModelKind> all_models();

/// Expects the same losses, scores, weights and predictions.
void expect_same_numbers(const TrainResult& a, const TrainResult& b);
/// Expects the same numbers and bytes.
void expect_same_run(const TrainResult& a, const TrainResult& b);

}  // namespace heliograph::test
