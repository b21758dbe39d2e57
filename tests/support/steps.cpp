#include "support/steps.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "comm/collectives.hpp"
#include "support/distance.hpp"
#include "train/checkpoint/trainer_state.hpp"
#include "train/host_values.hpp"
#include "train/plan/dataset_plan.hpp"
#include "train/trainer.hpp"

namespace heliograph::test {

std::vector<Step> run_steps(const Dataset& data, const TrainOptions& options,
                            const ThreadTransportOptions& transport,
                            const std::vector<Step>* given) {
  std::vector<Step> steps;
  const DatasetPlan plan(data, options, {});
  run_ranks(plan.facts().ranks, transport, [&](Communicator& comm) {
    Trainer trainer(plan,
                    plan.load(comm.rank(), GraphScope::training, MemoryUse::features, nullptr),
                    comm, nullptr);
    for (int epoch = 0; epoch < options.epochs; ++epoch) {
      Step step;
      std::size_t at = 0;
      HostWeights weights(trainer);
      for (const NamedTensor& tensor : weights.tensors()) {
        if (given != nullptr) {
          const std::vector<float>& from = (*given)[static_cast<std::size_t>(epoch)].weights;
          std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(at), tensor.values.size(),
                      tensor.values.begin());
        }
        step.weights.insert(step.weights.end(), tensor.values.begin(), tensor.values.end());
        at += tensor.values.size();
      }
      weights.store();
      step.loss = trainer.run_epoch(epoch, [] { return RunRequests(); }).report.loss;
      const HostValues<const float> host(trainer.gradients(), trainer.device());
      const std::span<const float> gradient = host.view();
      step.gradient.assign(gradient.size(), 0);
      for (const Optimizer::Range& range : trainer.optimizer().ranges()) {
        const Optimizer::Range mine = trainer.optimizer().owned(range);
        std::copy(gradient.begin() + mine.begin, gradient.begin() + mine.end,
                  step.gradient.begin() + mine.begin);
      }
      AllReduce(comm, Channel::evaluation).sum(std::span<float>(step.gradient));
      if (comm.rank() == 0) steps.push_back(std::move(step));
    }
    trainer.finish();
  });
  return steps;
}

void expect_near(const std::vector<Step>& got, const std::vector<Step>& expected, double loss_bound,
                 double gradient_bound) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t e = 0; e < got.size(); ++e) {
    EXPECT_NEAR(got[e].loss / expected[e].loss, 1.0, loss_bound) << "epoch " << e;
    EXPECT_LT(relative_distance(got[e].gradient, expected[e].gradient), gradient_bound)
        << "epoch " << e;
  }
}

}  // namespace heliograph::test
