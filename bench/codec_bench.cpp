// Encoding gathered rows, compared with only reading them, and decoding. Bytes per second count
// the rows in fp32.

#include <benchmark/benchmark.h>

#include <string>

#include "core/cpu/decode_rows.hpp"
#include "workload.hpp"

namespace heliograph::bench {
namespace {

void count_values(benchmark::State& state) {
  const std::int64_t values = sizes().rows * sizes().width;
  state.SetItemsProcessed(state.iterations() * values);
  state.SetBytesProcessed(state.iterations() * values * 4);
}

void encode(benchmark::State& state, int bits) {
  const auto codec = make_cpu_codec({bits, true});
  const Buffer out(codec->encoded_bytes(sizes().rows, sizes().width), MemoryUse::workspace,
                   nullptr);
  std::uint64_t stream = 0;
  for (auto _ : state) {
    codec->encode(random_features(), gathered_rows(), ++stream, out.data(), threads());
    benchmark::ClobberMemory();
  }
  count_values(state);
}

/// Lower bound of encoding: reads the same rows in the same order and discards their sums.
void read_only(benchmark::State& state) {
  const ConstMatrixView x = random_features();
  const auto rows = gathered_rows().rows;
  for (auto _ : state) {
    threads().for_ranges(x.rows, 64, [&](std::int64_t begin, std::int64_t end) {
      float sums[64] = {};
      for (std::int64_t i = begin; i < end; ++i) {
        const float* row = x.row(rows[static_cast<std::size_t>(i)]);
        if (i + 4 < end) {
          const float* next = x.row(rows[static_cast<std::size_t>(i) + 4]);
          for (std::int64_t c = 0; c < x.cols; c += 16) __builtin_prefetch(next + c);
        }
        std::int64_t c = 0;
        for (; c + 64 <= x.cols; c += 64) {
          for (int k = 0; k < 64; ++k) sums[k] += row[c + k];
        }
        for (; c < x.cols; ++c) sums[0] += row[c];
      }
      benchmark::DoNotOptimize(sums);
    });
  }
  count_values(state);
}

void decode(benchmark::State& state, int bits) {
  const PackedRows rows = encoded(bits);
  cpu::decode_rows(rows, nullptr, output(), threads());
  for (std::int64_t c = 0; c < rows.cols; ++c) {
    if (output().row(1)[c] != decode_value(rows.row(1), rows.format, rows.cols, c)) {
      state.SkipWithError("a decoded value differs from decode_value()");
    }
  }
  for (auto _ : state) {
    cpu::decode_rows(rows, nullptr, output(), threads());
    benchmark::ClobberMemory();
  }
  count_values(state);
}

}  // namespace

void register_codec() {
  const auto add = [](const std::string& name, auto function, auto... arguments) {
    benchmark::RegisterBenchmark(name.c_str(), function, arguments...)
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  };
  add("encode/read_only", read_only);
  for (const int bits : {1, 2, 4, 8, 16, 32}) {
    add("encode/" + std::to_string(bits), encode, bits);
    add("decode/" + std::to_string(bits), decode, bits);
  }
}

}  // namespace heliograph::bench
