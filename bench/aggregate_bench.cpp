// Aggregation: packed rows, compared with decoding them first, and inner rows, compared with
// stream_triad. Bytes per second count edges x width x 4, the row traffic in fp32, so that formats
// can be compared with each other.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>

#include "core/cpu/aggregate.hpp"
#include "core/cpu/decode_rows.hpp"
#include "core/gather_blocks.hpp"
#include "workload.hpp"

namespace heliograph::bench {
namespace {

void count_rows(benchmark::State& state) {
  const std::int64_t edges = sizes().outputs * sizes().degree;
  state.SetItemsProcessed(state.iterations() * edges);
  state.SetBytesProcessed(state.iterations() * edges * sizes().width * 4);
}

/// The graph with values of its entries, which change the work and not the structure.
Csr weighted_graph() {
  Csr csr = random_graph();
  csr.values.assign(csr.columns.size(), 0.75F);
  return csr;
}

void packed(benchmark::State& state, int bits, bool weighted) {
  const Csr csr = weighted ? weighted_graph() : random_graph();
  const CsrView graph = csr.view();
  const PackedRows rows = encoded(bits);
  for (auto _ : state) {
    cpu::aggregate_halo(graph, rows, nullptr, output(), {}, threads());
    benchmark::ClobberMemory();
  }
  count_rows(state);
}

/// Decodes to fp32, then multiplies, as engines do that cannot aggregate packed rows.
void decode_then_multiply(benchmark::State& state, int bits) {
  const CsrView graph = random_graph().view();
  const PackedRows rows = encoded(bits);
  const Buffer values(static_cast<std::size_t>(rows.rows * rows.cols) * 4, MemoryUse::workspace,
                      nullptr);
  const MatrixView fp32{values.as<float>().data(), rows.rows, rows.cols, rows.cols};
  const PackedRows as_rows{values.data(), rows.rows, rows.cols, 0, {32, true}};
  for (auto _ : state) {
    cpu::decode_rows(rows, nullptr, fp32, threads());
    cpu::aggregate_halo(graph, as_rows, nullptr, output(), {}, threads());
    benchmark::ClobberMemory();
  }
  count_rows(state);
}

void inner(benchmark::State& state, bool scaled, bool weighted) {
  const Csr csr = weighted ? weighted_graph() : random_graph();
  CsrView graph = csr.view();
  const GatherBlocks blocks(graph, sizes().rows, threads(), MemoryUse::workspace, nullptr);
  graph.blocks = &blocks;
  const std::vector<float> scale(static_cast<std::size_t>(std::max(sizes().rows, sizes().outputs)),
                                 0.5F);
  const float* by_row = scaled ? scale.data() : nullptr;
  const float self = sizes().outputs <= sizes().rows ? 1.0F : 0.0F;
  for (auto _ : state) {
    cpu::aggregate_inner(graph, random_features(), by_row, self, by_row, output(), {}, threads());
    benchmark::ClobberMemory();
  }
  count_rows(state);
}

/// Gathers as many entries, all from the first 1,024 rows: the rate of the second-level cache.
void inner_cached(benchmark::State& state) {
  constexpr std::int64_t kRows = GatherBlocks::kBlockRows;
  Csr csr = random_graph();
  for (std::int32_t& column : csr.columns)
    column = static_cast<std::int32_t>(column % std::min(kRows, sizes().rows));
  const std::int64_t rows = std::min(kRows, sizes().rows);
  for (auto _ : state) {
    cpu::aggregate_inner(csr.view(), random_features().row_range(0, rows), nullptr, 0, nullptr,
                         output(), {}, threads());
    benchmark::ClobberMemory();
  }
  count_rows(state);
}

/// Inner aggregation in bf16, including the pass that rounds and stores the rows.
void inner_bf16(benchmark::State& state) {
  CsrView graph = random_graph().view();
  const GatherBlocks blocks(graph, sizes().rows, threads(), MemoryUse::workspace, nullptr);
  graph.blocks = &blocks;
  const BasicMatrix<std::uint16_t> stored(sizes().rows, sizes().width, MemoryUse::workspace,
                                          nullptr);
  const float self = sizes().outputs <= sizes().rows ? 1.0F : 0.0F;
  for (auto _ : state) {
    cpu::aggregate_inner_bf16(graph, random_features(), nullptr, self, nullptr, output(),
                              stored.view(), threads());
    benchmark::ClobberMemory();
  }
  count_rows(state);
}

/// a = b + s * c over arrays far larger than the caches; counts 12 bytes an element.
void stream_triad(benchmark::State& state) {
  constexpr std::int64_t kCount = std::int64_t{1} << 23;
  const Buffer buffers[3] = {{kCount * 4, MemoryUse::workspace, nullptr},
                             {kCount * 4, MemoryUse::workspace, nullptr},
                             {kCount * 4, MemoryUse::workspace, nullptr}};
  float* a = buffers[0].as<float>().data();
  const float* b = buffers[1].as<float>().data();
  const float* c = buffers[2].as<float>().data();
  for (auto _ : state) {
    threads().for_ranges(kCount, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) a[i] = b[i] + 3.0F * c[i];
    });
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * kCount * 12);
}

}  // namespace

void register_aggregate() {
  const auto add = [](const std::string& name, auto function, auto... arguments) {
    benchmark::RegisterBenchmark(name.c_str(), function, arguments...)
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  };
  for (const int bits : {1, 2, 4, 8, 16, 32}) {
    add("halo_aggregate/packed/" + std::to_string(bits), packed, bits, false);
    add("halo_aggregate/packed_weighted/" + std::to_string(bits), packed, bits, true);
    add("halo_aggregate/decode_then_multiply/" + std::to_string(bits), decode_then_multiply, bits);
  }
  add("inner_aggregate/fp32", inner, false, false);
  add("inner_aggregate/fp32_scaled", inner, true, false);
  add("inner_aggregate/fp32_weighted", inner, true, true);
  add("inner_aggregate/fp32_cached", inner_cached);
  add("inner_aggregate/bf16", inner_bf16);
  add("stream_triad", stream_triad);
}

}  // namespace heliograph::bench
