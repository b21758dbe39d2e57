// Matrix products of a training step, to compare with `peak`, a loop of multiply-adds that touches
// no memory. GF/s count 2 operations a multiply-add.

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "core/cpu/gemm.hpp"
#include "core/cpu/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gemm_bench.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// after foreach_target
#include <hwy/highway.h>

#include "workload.hpp"

HWY_BEFORE_NAMESPACE();
namespace heliograph::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Runs 12 independent chains of `steps` multiply-adds and returns the number of operations.
double MultiplyAdds(std::int64_t steps, float* sink) {
  const hn::CappedTag<float, 16> d;
  const auto x = hn::Set(d, 0.999F);
  const auto y = hn::Set(d, 0.001F);
  // The chains start at different values; the compiler would merge equal ones.
  const auto from = [&](float value) HWY_ATTR { return hn::Set(d, value + *sink); };
  auto a = from(1), b = from(2), c = from(3), e = from(4), f = from(5), g = from(6);
  auto h = from(7), i = from(8), j = from(9), k = from(10), l = from(11), m = from(12);
  for (std::int64_t s = 0; s < steps; ++s) {
    a = hn::MulAdd(a, x, y), b = hn::MulAdd(b, x, y), c = hn::MulAdd(c, x, y);
    e = hn::MulAdd(e, x, y), f = hn::MulAdd(f, x, y), g = hn::MulAdd(g, x, y);
    h = hn::MulAdd(h, x, y), i = hn::MulAdd(i, x, y), j = hn::MulAdd(j, x, y);
    k = hn::MulAdd(k, x, y), l = hn::MulAdd(l, x, y), m = hn::MulAdd(m, x, y);
  }
  const auto sum = a + b + c + e + f + g + h + i + j + k + l + m;
  *sink = hn::GetLane(sum);
  return 24.0 * static_cast<double>(steps) * static_cast<double>(hn::Lanes(d));
}

}  // namespace heliograph::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heliograph::bench {
namespace {

HWY_EXPORT(MultiplyAdds);

void count(benchmark::State& state, double operations) {
  state.counters["GF/s"] =
      benchmark::Counter(operations * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void peak(benchmark::State& state) {
  std::vector<float> sinks(static_cast<std::size_t>(threads().threads()) * 64);
  const std::int64_t tasks = threads().threads();
  double operations = 0;
  for (auto _ : state) {
    threads().run(tasks, [&](std::int64_t t) {
      const double done = HWY_DYNAMIC_DISPATCH(MultiplyAdds)(
          2'000'000, sinks.data() + static_cast<std::size_t>(t) * 64);
      if (t == 0) operations = done * static_cast<double>(tasks);
    });
    benchmark::DoNotOptimize(sinks.data());
  }
  count(state, operations);
}

Matrix filled(std::int64_t rows, std::int64_t cols) {
  Matrix m(rows, cols, MemoryUse::workspace, nullptr);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      m.view().row(r)[c] = static_cast<float>((r * 7 + c * 3) % 17) / 16 - 0.5F;
    }
  }
  return m;
}

double operations(std::int64_t in, std::int64_t out) {
  return 2.0 * static_cast<double>(sizes().rows) * static_cast<double>(in) *
         static_cast<double>(out);
}

/// (rows x in) times (in x out) or, transposed, (rows x out) times (in x out)^T.
void product(benchmark::State& state, std::int64_t in, std::int64_t out, bool transposed) {
  const Matrix x = filled(sizes().rows, transposed ? out : in);
  const Matrix w = filled(in, out);
  const Matrix y = filled(sizes().rows, transposed ? in : out);
  cpu::Gemm gemm(threads(), nullptr);
  for (auto _ : state) {
    gemm.multiply(x.view(), w.view(), transposed, false, y.view(), false);
    benchmark::ClobberMemory();
  }
  count(state, operations(in, out));
}

void weight_gradient(benchmark::State& state, std::int64_t in, std::int64_t out) {
  const Matrix x = filled(sizes().rows, in);
  const Matrix d = filled(sizes().rows, out);
  std::vector<float> sum(static_cast<std::size_t>(in * out));
  cpu::Gemm gemm(threads(), nullptr);
  for (auto _ : state) {
    gemm.gradient(x.view(), d.view(), {sum.data(), nullptr, in, out});
    benchmark::ClobberMemory();
  }
  count(state, operations(in, out));
}

}  // namespace

void register_gemm() {
  const auto add = [](const std::string& name, auto function, auto... arguments) {
    benchmark::RegisterBenchmark(name.c_str(), function, arguments...)
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  };
  add("gemm/peak_fma", peak);
  struct Shape {
    std::int64_t in, out;
  };
  for (const Shape s :
       {Shape{100, 128}, {128, 128}, {256, 256}, {602, 256}, {128, 41}, {128, 47}}) {
    const std::string name = std::to_string(s.in) + "x" + std::to_string(s.out);
    add("gemm/forward/" + name, product, s.in, s.out, false);
    add("gemm/input_gradient/" + name, product, s.in, s.out, true);
    add("gemm/weight_gradient/" + name, weight_gradient, s.in, s.out);
  }
}

}  // namespace heliograph::bench
#endif
