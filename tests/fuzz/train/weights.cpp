// A file of weights: it is read, predicts for a small graph, and is the same once it has been saved
// and read.

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

#include "fuzz/support/attempt.hpp"
#include "fuzz/support/input_files.hpp"
#include "heliograph/io.hpp"
#include "heliograph/model.hpp"

namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heliograph;
  const fuzz::InputFiles files(data, size);
  if (!files.valid()) return -1;
  fuzz::attempt([&] {
    const Model model = Model::load(files.first());
    const std::filesystem::path saved = files.folder() / "saved", again = files.folder() / "again";
    model.save(saved);
    Model::load(saved).save(again);
    fuzz::require(read(saved) == read(again),
                  "weights are the same once they have been saved and loaded");
    if (model.feature_cols > 64) return;
    Dataset dataset;
    const std::vector<NodeId> from{0, 1, 2, 3}, to{1, 2, 3, 4};
    const bool directed = model.graph && model.graph->directed;
    std::vector<float> weights;
    if (model.graph && model.graph->weighted) weights = {1, 2, 1, 0.5F};
    dataset.graph = make_graph(5, from, to, directed, nullptr, weights);
    dataset.features.rows = 5;
    dataset.features.cols = model.feature_cols;
    dataset.features.dense =
        std::vector<float>(static_cast<std::size_t>(5 * model.feature_cols), 0.5F);
    PredictOptions request;
    request.threads_per_rank = 1;
    model.predict(dataset, request);
  });
  return 0;
}
