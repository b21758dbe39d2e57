// Attention over packed halo rows of four heads, compared with decoding them first and then summing
// with the same weights. Forward sums only: scores, softmax and both sums by sign.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "core/cpu/attention.hpp"
#include "core/cpu/decode_rows.hpp"
#include "workload.hpp"

namespace heliograph::bench {
namespace {

constexpr int kHeads = 4;

/// random_features() as rows of four groups with exact scores.
struct AttentionRows {
  Matrix scores;
  std::vector<std::byte> bytes;
  PackedRows packed;

  explicit AttentionRows(int bits) : scores(sizes().rows, kHeads, MemoryUse::workspace, nullptr) {
    for (std::int64_t r = 0; r < sizes().rows; ++r) {
      for (int h = 0; h < kHeads; ++h) scores.view().row(r)[h] = random_features().row(r)[h];
    }
    RowSelection selection = gathered_rows();
    selection.exact = scores.view();
    const RowFormat format{bits, true, kHeads, kHeads};
    bytes.resize(static_cast<std::size_t>(sizes().rows) * format.row_bytes(sizes().width) + 64);
    make_cpu_codec(format)->encode(random_features(), selection, 5, bytes.data(), threads());
    packed = PackedRows(bytes.data(), sizes().rows, sizes().width, 0, format);
  }
};

/// Sums, which every call resets, so that the shift of rows is raised as in a first block.
class Sums {
 public:
  explicit Sums(const CsrView& graph) : graph_(graph) {
    const std::int64_t rows = graph.rows;
    positive_ = Matrix(rows, sizes().width, MemoryUse::workspace, nullptr);
    other_ = Matrix(rows, sizes().width, MemoryUse::workspace, nullptr);
    totals_ = Matrix(rows, 3 * kHeads, MemoryUse::workspace, nullptr);
    targets_ = Matrix(rows, kHeads, MemoryUse::workspace, nullptr);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (int h = 0; h < kHeads; ++h) targets_.view().row(r)[h] = 0.1F * static_cast<float>(h);
    }
  }

  void add(const PackedRows& rows) {
    for (std::int64_t r = 0; r < totals_.view().rows; ++r) {
      std::fill_n(totals_.view().row(r), kHeads, std::numeric_limits<float>::lowest());
    }
    Attention a;
    a.heads = kHeads;
    a.row_scores = targets_.view();
    cpu::attention_halo(graph_, a, rows, {{positive_.view(), other_.view(), totals_.view()}, {}},
                        space_, threads());
    benchmark::ClobberMemory();
  }

 private:
  CsrView graph_;
  Matrix positive_, other_, totals_, targets_;
  cpu::AttentionSpace space_{nullptr};
};

void count_edges(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * random_graph().entries());
}

void attend_packed(benchmark::State& state, int bits) {
  const AttentionRows rows(bits);
  Sums sums(random_graph().view());
  for (auto _ : state) sums.add(rows.packed);
  count_edges(state);
}

/// One row with all entries, which more than one thread sums by parts.
void attend_from_one_row(benchmark::State& state, int bits) {
  const AttentionRows rows(bits);
  const Csr hub{{0, random_graph().entries()}, random_graph().columns};
  Sums sums(hub.view());
  for (auto _ : state) sums.add(rows.packed);
  count_edges(state);
}

void decode_then_attend(benchmark::State& state, int bits) {
  const AttentionRows rows(bits);
  const std::int64_t width = sizes().width, stride = width + kHeads;
  std::vector<float> values(static_cast<std::size_t>(sizes().rows * stride) + 16);
  // The scores are there already, which favours this side.
  for (std::int64_t r = 0; r < sizes().rows; ++r) {
    for (int h = 0; h < kHeads; ++h) {
      values[static_cast<std::size_t>(r * stride + width + h)] = rows.packed.exact(r, h);
    }
  }
  const MatrixView decoded{values.data(), sizes().rows, width, stride};
  const PackedRows as_rows(reinterpret_cast<const std::byte*>(values.data()), sizes().rows, width,
                           0, {32, true, kHeads, kHeads});
  Sums sums(random_graph().view());
  for (auto _ : state) {
    cpu::decode_rows(rows.packed, nullptr, decoded, threads());
    sums.add(as_rows);
  }
  count_edges(state);
}

}  // namespace

void register_attention() {
  const auto add = [](const std::string& name, auto function, int bits) {
    benchmark::RegisterBenchmark((name + "/" + std::to_string(bits)).c_str(), function, bits)
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  };
  add("halo_attention/one_row", attend_from_one_row, 1);
  for (const int bits : {1, 2, 4, 8, 16}) {
    add("halo_attention/packed", attend_packed, bits);
    add("halo_attention/decode_then_attend", decode_then_attend, bits);
  }
}

}  // namespace heliograph::bench
