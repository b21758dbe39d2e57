#pragma once

#include "core/halo.hpp"
#include "core/kernels.hpp"
#include "graph/shard.hpp"
#include "heliograph/dataset.hpp"
#include "layers/graph_operator.hpp"
#include "layers/network.hpp"

namespace heliograph::test {

/// The halo of a run with one rank, which has no peers.
class NoHalo final : public Halo {
 public:
  void open(const Site&, const OfferedRows&) override {}
  void offer(const Site&, RowRange) override {}
  void finish(const Site&, FunctionRef<void(const PackedRows&)>) override {}
};

/// Everything that a pass over a whole data set on one rank needs.
class SingleRank {
 public:
  explicit SingleRank(const Dataset& dataset, ModelOptions options, bool reproducible = true,
                      int blocks = 1);

  double loss();                ///< The forward pass and the loss of epoch `epoch`.
  double loss_and_gradients();  ///< The same and the backward pass.
  /// `complete` and `release` are those of Network::backward.
  double loss_and_gradients(FunctionRef<void(std::int64_t, std::int64_t)> complete,
                            FunctionRef<void()> release);
  Network& model() { return *model_; }

  std::int64_t epoch = 3;

 private:
  ModelInput input() const;
  PassContext pass() { return {*kernels_, halo_, times_, {epoch}, 11}; }

  const Dataset& dataset_;
  Partition partition_;
  NodeIndex index_;
  std::optional<Graph> transposed_;
  Shard shard_;
  std::unique_ptr<Kernels> kernels_;
  PlacedShard placed_;
  GraphOperator op_;
  FeatureMatrix x_, aggregated_;
  std::unique_ptr<Network> model_;
  NoHalo halo_;
  PhaseClock times_;
  std::vector<std::int32_t> target_;
  std::vector<std::uint8_t> mask_;
};

}  // namespace heliograph::test
