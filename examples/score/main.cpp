// A program that scores new nodes: trains on the nodes that a graph has today, keeps the model in a
// file, and predicts the classes of nodes that are added later, which nobody has labelled.
// Usage: score [MODEL.safetensors]
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <vector>

#include "heliograph/generate.hpp"
#include "heliograph/model.hpp"
#include "heliograph/train.hpp"

namespace {

/// The first `count` nodes of `whole`, and the edges between them.
heliograph::Dataset first_nodes(const heliograph::Dataset& whole, heliograph::NodeId count) {
  heliograph::Dataset part;
  part.name = "today";
  std::vector<std::int64_t> offsets{0};
  std::vector<heliograph::NodeId> neighbours;
  for (heliograph::NodeId v = 0; v < count; ++v) {
    const auto row = static_cast<std::size_t>(v);
    for (auto i = whole.graph.offsets[row]; i < whole.graph.offsets[row + 1]; ++i) {
      const heliograph::NodeId u = whole.graph.neighbours[static_cast<std::size_t>(i)];
      if (u < count) neighbours.push_back(u);
    }
    offsets.push_back(static_cast<std::int64_t>(neighbours.size()));
  }
  part.graph.nodes = count;
  part.graph.offsets = offsets;
  part.graph.neighbours = neighbours;
  part.features.rows = count;
  part.features.cols = whole.features.cols;
  const float* values = whole.features.dense.data();
  part.features.dense = std::vector<float>(values, values + count * whole.features.cols);
  part.labels.classes = whole.labels.classes;
  const std::int32_t* classes = whole.labels.class_of.data();
  part.labels.class_of = std::vector<std::int32_t>(classes, classes + count);
  return part;
}

}  // namespace

int main(int argc, char** argv) try {
  heliograph::GenerateOptions shape;
  shape.nodes = 2000;
  shape.edges = 10000;
  shape.classes = 5;
  shape.feature_cols = 32;
  heliograph::Dataset whole = heliograph::generate_dataset(shape);
  const std::vector<std::int32_t> truth(whole.labels.class_of.begin(), whole.labels.class_of.end());
  constexpr heliograph::NodeId kToday = 1600;

  heliograph::TrainOptions options;
  options.model.layers = 2;
  options.model.hidden = 64;
  options.epochs = 50;
  options.split = heliograph::RandomSplit{70, 30, 0};
  options.normalize = heliograph::Normalization::standard;
  const auto result = heliograph::train(first_nodes(whole, kToday), options);
  const std::filesystem::path file =
      argc > 1 ? argv[1] : std::filesystem::temp_directory_path() / "score-example.safetensors";
  result.model->save(file);

  // Later, perhaps in another program: 400 nodes more, and no labels. The model normalises the
  // features as they were normalised in training.
  whole.labels = {};
  whole.splits.clear();
  const heliograph::Model model = heliograph::Model::load(file);
  heliograph::PredictOptions wish;
  wish.embeddings = true;
  const heliograph::Outputs outputs = model.predict(whole, wish);

  int hits = 0;
  for (std::size_t v = kToday; v < truth.size(); ++v) hits += outputs.predictions[v] == truth[v];
  std::printf("epoch %d, validation accuracy %.4f; new nodes: %zu, of the right class: %.4f\n",
              model.epoch, model.val_metric, truth.size() - kToday,
              hits / static_cast<double>(truth.size() - kToday));
  std::printf("embeddings: %d values a node\n", outputs.embedding_cols);
  if (argc == 1) std::filesystem::remove(file);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "score: %s\n", error.what());
  return 1;
}
