// Row-wise kernels of a training step. Bytes per second count each byte that a kernel must move
// once; compare with stream_triad.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/kernels.hpp"
#include "workload.hpp"

namespace heliograph::bench {
namespace {

/// Kernels, and the parameters and statistics of a normalised layer with dropout 0.5.
class Layer {
 public:
  explicit Layer(benchmark::State& state) : state_(state) {
    random_features();  // built before the first benchmark is timed
    p.bias = row_.data();
    p.gain = row_.data() + sizes().width;
    p.shift = row_.data() + 2 * sizes().width;
    p.mean = statistics_.data();
    p.rstd = statistics_.data() + sizes().rows;
    p.dropout.threshold = 1 << 15;
    p.dropout.stream = 7;
    p.dropout.global_ids = ids_.data();
    std::iota(ids_.begin(), ids_.end(), 0);
  }

  /// Counts `bytes` moved for each element of the layer in an iteration.
  void count(std::int64_t bytes) {
    state_.SetBytesProcessed(state_.iterations() * sizes().rows * sizes().width * bytes);
  }

  std::unique_ptr<Kernels> kernels = make_cpu_kernels(sizes().threads, false);
  NormAct p;
  Matrix out = Matrix(sizes().rows, sizes().width, MemoryUse::workspace, nullptr);

 private:
  benchmark::State& state_;
  std::vector<float> row_ = std::vector<float>(static_cast<std::size_t>(3 * sizes().width), 0.5F);
  std::vector<float> statistics_ = std::vector<float>(static_cast<std::size_t>(2 * sizes().rows));
  std::vector<std::int64_t> ids_ =
      std::vector<std::int64_t>(static_cast<std::size_t>(sizes().rows));
};

void norm_act_forward(benchmark::State& state, bool dropout) {
  Layer layer(state);
  if (!dropout) layer.p.dropout.threshold = 0;
  for (auto _ : state) {
    layer.kernels->norm_act_forward(random_features(), layer.p, {}, layer.out.view());
    benchmark::ClobberMemory();
  }
  layer.count(4 + 4);
}

void norm_act_backward(benchmark::State& state, bool dropout) {
  Layer layer(state);
  if (!dropout) layer.p.dropout.threshold = 0;
  layer.kernels->norm_act_forward(random_features(), layer.p, {}, layer.out.view());
  std::vector<float> sums(static_cast<std::size_t>(3 * sizes().width));
  const auto gradient = [&](std::int64_t i) {
    return GradientView{sums.data() + i * sizes().width, nullptr, 1, sizes().width};
  };
  const NormActGradients g{gradient(0), gradient(1), gradient(2)};
  for (auto _ : state) {
    layer.kernels->norm_act_backward(random_features(), layer.p, layer.out.view(), {}, g);
    benchmark::ClobberMemory();
  }
  layer.count(4 + 4 + 4);
}

void adam(benchmark::State& state) {
  Layer layer(state);
  const std::int64_t count = sizes().rows * sizes().width;
  const std::vector<float> gradient(static_cast<std::size_t>(count), 0.25F);
  std::vector<float> m(gradient.size()), v(gradient.size());
  const AdamStep step{1e-3F, 0.9F, 0.999F, 1e-8F, 5e-4F, 0.5F, 0.5F, 1.0F};
  for (auto _ : state) {
    layer.kernels->adam(layer.out.view().data,
                        {const_cast<float*>(gradient.data()), nullptr, 1, count}, m.data(),
                        v.data(), step);
    benchmark::ClobberMemory();
  }
  layer.count(4 * 4 + 3 * 4);
}

/// Softmax loss of `classes` logits a row, with every row in training.
void softmax(benchmark::State& state, std::int64_t classes, bool reproducible) {
  const auto kernels = make_cpu_kernels(sizes().threads, reproducible);
  const ConstMatrixView logits = random_features().col_range(0, classes);
  Layer layer(state);
  const std::vector<std::int32_t> target(static_cast<std::size_t>(sizes().rows), 1);
  for (auto _ : state) {
    benchmark::DoNotOptimize(kernels->softmax_cross_entropy(
        logits, {target.data()}, 1e-3F, layer.out.view().col_range(0, classes)));
  }
  state.SetBytesProcessed(state.iterations() * sizes().rows * classes * (4 + 4));
}

void sigmoid(benchmark::State& state, std::int64_t classes, bool reproducible) {
  const auto kernels = make_cpu_kernels(sizes().threads, reproducible);
  const ConstMatrixView logits = random_features().col_range(0, classes);
  Layer layer(state);
  const std::vector<std::uint8_t> mask(static_cast<std::size_t>(sizes().rows), 1);
  const std::vector<std::uint8_t> indicators(static_cast<std::size_t>(sizes().rows * classes), 1);
  for (auto _ : state) {
    benchmark::DoNotOptimize(kernels->binary_cross_entropy(
        logits, indicators.data(), mask.data(), 1e-3F, layer.out.view().col_range(0, classes)));
  }
  state.SetBytesProcessed(state.iterations() * sizes().rows * classes * (4 + 4 + 1));
}

}  // namespace

void register_rows() {
  const auto add = [](const std::string& name, auto function, auto... arguments) {
    benchmark::RegisterBenchmark(name.c_str(), function, arguments...)
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  };
  add("rows/norm_act_forward", norm_act_forward, false);
  add("rows/norm_act_forward/dropout", norm_act_forward, true);
  add("rows/norm_act_backward", norm_act_backward, false);
  add("rows/norm_act_backward/dropout", norm_act_backward, true);
  add("rows/adam", adam);
  const std::int64_t classes = std::min<std::int64_t>(47, sizes().width);
  add("rows/softmax_cross_entropy/fp32", softmax, classes, false);
  add("rows/softmax_cross_entropy/fp64", softmax, classes, true);
  add("rows/binary_cross_entropy/fp32", sigmoid, classes, false);
  add("rows/binary_cross_entropy/fp64", sigmoid, classes, true);
}

}  // namespace heliograph::bench
