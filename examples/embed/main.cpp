// A program that uses the library: trains a GraphSAGE network on two ranks that exchange one bit a
// value. Usage: embed [DATA], where DATA is a data set that `heliograph train --data` takes (shards
// are for train_shards).
#include <cstdio>
#include <exception>

#include "heliograph/heliograph.hpp"

int main(int argc, char** argv) try {
  heliograph::Dataset dataset;
  if (argc > 1) {
    dataset = heliograph::load_dataset(argv[1]);
  } else {
    heliograph::GenerateOptions graph;  // A block model, in which features only hint at the class.
    graph.nodes = 2000;
    graph.edges = 10000;
    graph.classes = 5;
    graph.feature_cols = 32;
    dataset = heliograph::generate_dataset(graph);
  }

  heliograph::TrainOptions options;
  options.partition.parts = 2;
  options.model.layers = 3;
  options.model.hidden = 64;
  options.exchange.bits_forward = heliograph::Bits::one;
  options.exchange.bits_backward = heliograph::Bits::one;
  options.epochs = 50;
  if (dataset.splits.empty()) options.split = heliograph::RandomSplit{60, 20, 20};

  heliograph::TrainCallbacks callbacks;
  callbacks.on_epoch = [](const heliograph::EpochReport& epoch) {
    if (epoch.epoch % 10 == 0 && epoch.val_metric) {
      std::printf("epoch %3d  loss %.4f  validation %.4f\n", epoch.epoch, epoch.loss,
                  *epoch.val_metric);
    }
    return heliograph::EpochAction::proceed;
  };
  const heliograph::TrainResult result = heliograph::train(dataset, options, callbacks);

  const auto halo_bytes =
      result.bytes_per_epoch.halo_forward + result.bytes_per_epoch.halo_backward;
  std::printf("test score %.4f at epoch %d; %lld bytes exchanged an epoch, %lld in fp32\n",
              result.test_metric, result.best_epoch, static_cast<long long>(halo_bytes),
              static_cast<long long>(result.fp32_bytes_per_epoch));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "embed: %s\n", error.what());
  return 1;
}
