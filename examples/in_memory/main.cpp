// A program that builds its graph in memory, as a service does from its own records, and ends the
// training from a callback once the validation score has not improved for ten epochs.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <random>
#include <utility>
#include <vector>

#include "heliograph/heliograph.hpp"

namespace {

constexpr int kUsers = 1500, kGroups = 4, kColumns = 16;

/// Users follow mostly users of their own group, and their features hint at the group.
heliograph::Dataset make_dataset() {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> user(0, kUsers - 1);
  std::uniform_real_distribution<float> unit(0.0F, 1.0F);
  std::normal_distribution<float> noise(0.0F, 1.0F);

  std::vector<std::int64_t> followers, followed;
  while (followers.size() < 6 * kUsers) {
    const int a = user(random), b = user(random);
    if (a % kGroups != b % kGroups && unit(random) < 0.8F) continue;
    followers.push_back(a);
    followed.push_back(b);
  }
  std::vector<float> features;
  std::vector<std::int32_t> groups;
  for (int u = 0; u < kUsers; ++u) {
    groups.push_back(u % kGroups);
    for (int c = 0; c < kColumns; ++c) {
      features.push_back(noise(random) + (c % kGroups == groups.back() ? 0.5F : 0.0F));
    }
  }

  heliograph::Dataset dataset;
  dataset.name = "users";
  dataset.graph = heliograph::make_graph(kUsers, followers, followed);
  dataset.features.rows = kUsers;
  dataset.features.cols = kColumns;
  dataset.features.dense = std::move(features);
  dataset.labels.classes = kGroups;
  dataset.labels.class_of = std::move(groups);
  return dataset;
}

}  // namespace

int main() try {
  const heliograph::Dataset dataset = make_dataset();
  heliograph::validate(dataset);  // train() does it too; here it names a fault before options.

  heliograph::TrainOptions options;
  options.partition.parts = 2;
  options.model.layers = 2;
  options.model.hidden = 32;
  options.epochs = 1000;
  options.split = heliograph::RandomSplit{60, 20, 20};

  double best = 0;
  int epochs_without_gain = 0;
  heliograph::TrainCallbacks callbacks;
  callbacks.on_epoch = [&](const heliograph::EpochReport& report) {
    const bool gains = report.val_metric && *report.val_metric > best;
    if (gains) best = *report.val_metric;
    epochs_without_gain = gains ? 0 : epochs_without_gain + 1;
    return epochs_without_gain == 10 ? heliograph::EpochAction::stop
                                     : heliograph::EpochAction::proceed;
  };
  const heliograph::TrainResult result = heliograph::train(dataset, options, callbacks);
  std::printf("stopped after %zu of %d epochs; test accuracy %.4f at epoch %d\n",
              result.epochs.size(), options.epochs, result.test_metric, result.best_epoch);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "in_memory: %s\n", error.what());
  return 1;
}
