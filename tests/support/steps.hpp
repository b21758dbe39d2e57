#pragma once

#include <vector>

#include "comm/threads/transport.hpp"
#include "heliograph/dataset.hpp"
#include "heliograph/options.hpp"

namespace heliograph::test {

/// The weights before a training step, and what the step made of them.
struct Step {
  std::vector<float> weights;
  double loss = 0;
  std::vector<float> gradient;
};

/// The steps of a training whose ranks are threads, as rank 0 sees them. With `given`, each step
/// starts from the weights of the same step there.
std::vector<Step> run_steps(const Dataset& data, const TrainOptions& options,
                            const ThreadTransportOptions& transport,
                            const std::vector<Step>* given);

/// Fails the test unless losses differ by at most `loss_bound` of themselves and gradients by less
/// than `gradient_bound` of their norm.
void expect_near(const std::vector<Step>& got, const std::vector<Step>& expected, double loss_bound,
                 double gradient_bound);

}  // namespace heliograph::test
