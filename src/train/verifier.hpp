#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/collectives.hpp"
#include "comm/communicator.hpp"
#include "core/buffer.hpp"
#include "core/function_ref.hpp"
#include "core/phase_clock.hpp"
#include "heliograph/verification.hpp"
#include "layers/parameters.hpp"
#include "layers/recorded_sums.hpp"
#include "staleness/stale_halo.hpp"
#include "train/plan/run_plan.hpp"

namespace heliograph {

/// Measures how far the exchanges of training, one by one and together, move a step from the exact
/// one. The host must compute. Only the rank's own thread may use it.
class Verifier {
 public:
  /// `trained`: the halo of training; the other halos are like it. The references must outlive the
  /// object.
  Verifier(const RunPlan& plan, Communicator& comm, const PlacedShard& shard,
           const Parameters& parameters, std::span<const Site> sites, StaleHalo& trained,
           MemoryAccount* account);

  /// What all ranks' objects count of their outcomes. `nodes`: of the training graph.
  static std::int64_t outcome_bytes(const Parameters& parameters, std::int64_t nodes,
                                    std::int64_t classes, int ranks);

  /// What all ranks' objects hold of sums over neighbours. `nodes`: likewise.
  static std::int64_t sum_bytes(const ModelOptions& model, const ExchangePolicy& policy,
                                std::span<const Site> sites, std::int64_t nodes);

  /// Passes forward and backward with this halo, records sums if asked to, and leaves the rank's
  /// gradients in the parameters. Returns the values of the rank's logits.
  using MakeStep = FunctionRef<std::vector<float>(Halo& halo, RecordedSums* recorded)>;

  /// Measures the step that training will make in this epoch, which must not have begun. Leaves
  /// weights, statistics and `trained` as they were. Collective: all but the seconds are the same
  /// on every rank. Throws what steps throw.
  Verification verify(Clock clock, MakeStep make_step);

 private:
  struct Products;
  /// The sites whose exchanges are not exact in every epoch, without those of partial sums.
  static std::vector<Site> inexact(const ExchangePolicy& policy, std::span<const Site> sites);
  /// The columns, padding included, of the sums of all of these sites, and of the widest.
  struct SumColumns {
    std::int64_t all = 0, widest = 0;
  };
  static SumColumns sum_columns(std::span<const Site> sites);
  /// What a step gives: this rank's logits, and the gradients summed over ranks.
  struct Outcome {
    std::vector<float> logits;
    std::vector<double> gradients;
  };
  Outcome run(Halo& halo, RecordedSums* recorded, MakeStep make_step);
  VerifiedError error_of_ranks(const Products& mine);  ///< Collective.
  /// Collective.
  VerifiedPart compare(const Outcome& exact, const Outcome& moved);
  /// Of the sums of one site; empty if there are none. Collective.
  std::optional<VerifiedError> compare_sums(ConstMatrixView exact, ConstMatrixView moved);
  StaleHalo& coded() { return coded_ ? *coded_ : trained_; }

  Communicator& comm_;
  const Parameters& parameters_;
  std::vector<Site> sites_, inexact_;
  std::vector<Site> summed_;  ///< Those of `inexact_` whose sums are compared.
  StaleHalo& trained_;
  PhaseClock unused_;
  StaleHalo exact_;
  /// Rows of the same epoch in training's bits; `trained_` has them unless some are late.
  std::optional<StaleHalo> coded_;
  CountedBytes outcome_bytes_;
  RecordedSums exact_sums_, sums_;  ///< Of the exact step, and of one site in another.
  AllReduce sum_;
};

}  // namespace heliograph
