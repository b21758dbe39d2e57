// Inner aggregation with nodes in one order, and in a random order, turn by turn in one run: the
// counter `times_random` says how many times faster the order is, by medians.
// The graph: --graph=PATH (a data set that `heliograph train` reads), else a generated one of the
// products preset.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "core/cpu/aggregate.hpp"
#include "core/gather_blocks.hpp"
#include "graph/partition/node_order.hpp"
#include "graph/shard.hpp"
#include "heliograph/error.hpp"
#include "heliograph/generate.hpp"
#include "heliograph/io.hpp"
#include "workload.hpp"

namespace heliograph::bench {
namespace {

constexpr double kProductsScale = 0.05;

Graph load_or_generate() {
  if (!sizes().graph.empty()) return load_dataset(sizes().graph).graph;
  GenerateOptions options = generate_preset("products", kProductsScale);
  options.feature_cols = 1;
  return generate_dataset(options).graph;
}

const Graph& graph() {
  static const Graph loaded = load_or_generate();
  return loaded;
}

Csr inner_of(NodeOrder order) {
  const Partition whole{1, std::vector<std::int32_t>(static_cast<std::size_t>(graph().nodes), 0)};
  const std::vector<NodeId> nodes = order_nodes(graph(), order);
  const NodeIndex index(graph(), whole, nullptr, nodes);
  std::optional<Graph> transposed;
  if (graph().directed) transposed = transpose(graph());
  return std::move(build_shard(index, 0, transposed ? &*transposed : nullptr).in.inner);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

void inner_in_order(benchmark::State& state, NodeOrder order) {
  try {
    graph();
  } catch (const Error& e) {
    state.SkipWithError(e.what());
    return;
  }
  static const Csr in_random_order = inner_of(NodeOrder::random);
  const Csr in_order = inner_of(order);
  const Matrix x(graph().nodes, sizes().width, MemoryUse::workspace, nullptr);
  const Matrix out(graph().nodes, sizes().width, MemoryUse::workspace, nullptr);
  const auto blocks_of = [](const Csr& csr) {
    return GatherBlocks(csr.view(), graph().nodes, threads(), MemoryUse::graph, nullptr);
  };
  const GatherBlocks blocks = blocks_of(in_order);
  const GatherBlocks random_blocks = blocks_of(in_random_order);
  const auto seconds = [&](const Csr& csr, const GatherBlocks& in_blocks) {
    CsrView view = csr.view();
    view.blocks = &in_blocks;
    const auto begin = std::chrono::steady_clock::now();
    cpu::aggregate_inner(view, x.view(), nullptr, 1, nullptr, out.view(), {}, threads());
    benchmark::ClobberMemory();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::vector<double> ordered, random;
  for (auto _ : state) {
    random.push_back(seconds(in_random_order, random_blocks));
    ordered.push_back(seconds(in_order, blocks));
    state.SetIterationTime(ordered.back());
  }
  const std::int64_t edges = graph().entries();
  state.SetItemsProcessed(state.iterations() * edges);
  state.SetBytesProcessed(state.iterations() * edges * sizes().width * 4);
  state.counters["times_random"] = median(random) / median(ordered);
}

/// The order itself: what a run pays once.
void make_order(benchmark::State& state, NodeOrder order) {
  try {
    graph();
  } catch (const Error& e) {
    state.SkipWithError(e.what());
    return;
  }
  for (auto _ : state) benchmark::DoNotOptimize(order_nodes(graph(), order).data());
  state.SetItemsProcessed(state.iterations() * graph().entries());
}

}  // namespace

void register_order() {
  const std::pair<const char*, NodeOrder> orders[] = {
      {"random", NodeOrder::random}, {"id", NodeOrder::id}, {"cluster", NodeOrder::cluster}};
  for (const auto& [name, order] : orders) {
    benchmark::RegisterBenchmark((std::string("inner_aggregate/order/") + name).c_str(),
                                 inner_in_order, order)
        ->Unit(benchmark::kMillisecond)
        ->UseManualTime();
  }
  benchmark::RegisterBenchmark("node_order/cluster", make_order, NodeOrder::cluster)
      ->Unit(benchmark::kMillisecond);
}

}  // namespace heliograph::bench
