// heliograph_device_bench [--rows=N] [--outputs=N] [--degree=N] [--width=N] [--copy-mib=N]
// [--gemm=N] [--seconds=X] [--json=FILE]
//
// Times kernels on CUDA device 0. The bytes that a kernel must move are a share of what a copy
// moves in the same time; matrix products, also with TF32, are a share of a large fp32 product's
// rate. cuSPARSE's product is timed beside the inner aggregation if it can be loaded. FILE is
// written again after each kernel. Exit codes: 0; 1 not all was measured; 2 usage; 3 no CUDA
// device.

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/cuda/runtime.hpp"
#include "core/kernels.hpp"
#include "device/cusparse_spmm.hpp"
#include "device/decode_rows.hpp"
#include "device/options.hpp"
#include "device/results.hpp"
#include "heliograph/error.hpp"
#include "quant/codec.hpp"

namespace heliograph::bench {
namespace {

/// Columns of the logits: Reddit's 41 classes, which are not a multiple of 4.
constexpr std::int64_t kClasses = 41;

/// A copy of a host array in device memory.
template <class T>
class Array {
 public:
  Array(Kernels& kernels, MemoryAccount& account, const std::vector<T>& host)
      : buffer_(host.size() * sizeof(T), MemoryUse::workspace, &account), count_(host.size()) {
    kernels.device().upload(buffer_.data(), host.data(), count_ * sizeof(T));
  }
  T* data() const { return reinterpret_cast<T*>(buffer_.data()); }
  std::size_t size() const { return count_; }

 private:
  Buffer buffer_;
  std::size_t count_;
};

class Bench {
 public:
  /// `tf32` are kernels of the same device with TF32 products. `keep` is called after each kernel,
  /// with all results so far.
  Bench(const Sizes& sizes, Kernels& kernels, Kernels& tf32,
        std::function<void(const std::vector<Result>&)> keep)
      : sizes_(sizes),
        kernels_(kernels),
        tf32_(tf32),
        keep_(std::move(keep)),
        account_(kernels.device().memory()) {}

  /// Measures everything. Returns false if a part failed, which standard error names.
  bool run() {
    bool whole = true;
    const auto part = [&](const char* name, const auto& measure_it) {
      try {
        measure_it();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", name, error.what());
        whole = false;
      }
    };
    part("copies", [&] { copies(); });
    part("products", [&] { products(); });
    const Matrix x = normal(sizes_.rows, sizes_.width);
    part("codecs", [&] { codecs(x.view()); });
    part("aggregations", [&] { aggregations(x.view()); });
    part("rows", [&] { rows(x.view()); });
    part("losses", [&] { losses(); });
    part("adam", [&] { adam(); });
    return whole;
  }
  const std::vector<Result>& results() const { return results_; }

 private:
  using Clock = std::chrono::steady_clock;

  /// Adds the median time of `call` over rounds; a round ends when all of its calls are done.
  void measure(const std::string& name, Work work, const std::function<void()>& call) {
    measure_on(kernels_, name, work, call);
  }
  void measure_on(Kernels& kernels, const std::string& name, Work work,
                  const std::function<void()>& call) {
    kernels_.device().finish();  // waits for the inputs of `call`
    const auto round = [&](int calls) {
      const auto begin = Clock::now();
      for (int i = 0; i < calls; ++i) call();
      kernels.device().finish();
      return std::chrono::duration<double>(Clock::now() - begin).count();
    };
    round(3);
    constexpr int kRounds = 5;
    const double once = round(3) / 3;
    const int calls = std::clamp(static_cast<int>(sizes_.seconds / kRounds / once), 1, 10000);
    std::vector<double> times;
    for (int i = 0; i < kRounds; ++i) times.push_back(round(calls) / calls);
    std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
    results_.push_back({name, times[kRounds / 2], work});
    keep_(results_);
  }

  Matrix empty(std::int64_t rows, std::int64_t cols) {
    return Matrix(rows, cols, MemoryUse::workspace, &account_);
  }
  Matrix normal(std::int64_t rows, std::int64_t cols) {
    const Matrix host(rows, cols, MemoryUse::workspace, nullptr);
    const auto count = static_cast<std::size_t>(host.view().rows * host.view().stride);
    std::normal_distribution<float> draw;
    std::generate_n(host.view().data, count, [&] { return draw(random_); });
    Matrix device = empty(rows, cols);
    kernels_.device().upload(device.view().data, host.view().data, count * sizeof(float));
    return device;
  }
  template <class T>
  Array<T> array(const std::vector<T>& host) {
    return Array<T>(kernels_, account_, host);
  }

  void copies() {
    const std::size_t bytes = static_cast<std::size_t>(sizes_.copy_mib) << 20;
    const Buffer from(bytes, MemoryUse::workspace, &account_);
    const Buffer to(bytes, MemoryUse::workspace, &account_);
    const double moved = 2.0 * static_cast<double>(bytes);
    cudaStream_t stream = kernels_.device().queue()->stream();
    measure("copy", {moved, moved, 0}, [&] {
      cuda::check(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, stream),
                  "copy");
    });
  }

  void product(const std::string& name, std::int64_t m, std::int64_t k, std::int64_t n) {
    const Matrix a = normal(m, k), b = normal(k, n), c = empty(m, n);
    const auto work = [](std::int64_t x, std::int64_t y, std::int64_t z) {
      const double moved = 4.0 * static_cast<double>(x * y + y * z + x * z);
      return Work{moved, moved, 2.0 * static_cast<double>(x) * static_cast<double>(y * z)};
    };
    const Array<float> g = array(std::vector<float>(static_cast<std::size_t>(k * n)));
    const auto both = [&](Kernels& kernels, const std::string& suffix) {
      measure_on(kernels, "gemm/" + name + suffix, work(m, k, n),
                 [&] { kernels.gemm(a.view(), b.view(), false, false, c.view()); });
      measure_on(kernels, "gemm_gradient/" + name + suffix, work(m, k, n), [&] {
        kernels.gemm_gradient(a.view(), c.view(), {g.data(), nullptr, k, n});
      });
    };
    both(kernels_, "");
    both(tf32_, "/tf32");
  }

  /// A last layer's product with its bias, added in a separate pass and by the product itself.
  void product_with_bias(std::int64_t m, std::int64_t k, std::int64_t n) {
    const Matrix a = normal(m, k), c = empty(m, n);
    const Array<float> weights = array(std::vector<float>(static_cast<std::size_t>(k * n), 0.1F));
    const Array<float> bias = array(std::vector<float>(static_cast<std::size_t>(n), 0.1F));
    const ConstMatrixView b{weights.data(), k, n, n};
    const double moved = 4.0 * static_cast<double>(m * k + k * n + m * n);
    const Work work{moved, moved, 2.0 * static_cast<double>(m) * static_cast<double>(k * n)};
    for (const bool accumulate : {false, true}) {
      const std::string suffix = accumulate ? "/added" : "";
      measure("gemm_then_bias" + suffix, work, [&] {
        kernels_.gemm(a.view(), b, false, accumulate, c.view());
        kernels_.add_bias(c.view(), bias.data());
      });
      measure("gemm_bias" + suffix, work,
              [&] { kernels_.gemm_bias(a.view(), b, accumulate, bias.data(), c.view()); });
    }
  }

  void products() {
    product("large", sizes_.gemm, sizes_.gemm, sizes_.gemm);
    product("layer", sizes_.rows, sizes_.width, sizes_.width);
    product_with_bias(sizes_.rows, sizes_.width, kClasses);
  }

  void codecs(ConstMatrixView x) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(x.rows));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    std::vector<std::int64_t> ids(order.begin(), order.end());
    const Array<std::int32_t> rows = array(order);
    const Array<std::int64_t> global_ids = array(ids);
    const RowSelection selection{{rows.data(), rows.size()}, nullptr, global_ids.data()};
    const Matrix decoded = empty(x.rows, x.cols);
    cuda::Queue& queue = *kernels_.device().queue();
    const double values = static_cast<double>(x.rows * x.cols);
    for (const int bits : {1, 2, 4, 8, 16, 32}) {
      const auto codec = make_codec({bits, true}, kernels_.device());
      const std::size_t bytes = codec->encoded_bytes(x.rows, x.cols);
      const Buffer out(bytes, MemoryUse::workspace, &account_);
      const double moved = 4 * values + static_cast<double>(bytes);
      const double keys = 12.0 * static_cast<double>(x.rows);
      std::uint64_t stream = 0;
      measure("encode/" + std::to_string(bits), {moved + keys, moved + keys, 0}, [&] {
        codec->encode(x, selection, ++stream, out.data(), kernels_.device().threads());
      });
      const PackedRows packed{out.data(), x.rows, x.cols, 0, codec->format()};
      measure("decode/" + std::to_string(bits), {moved, moved, 0},
              [&] { cuda::decode_rows(queue, packed, decoded.view()); });
      aggregate_packed(packed, decoded.view());
    }
  }

  struct Graph {
    Array<std::int64_t> offsets;
    Array<std::int32_t> columns;
    CsrView csr;
  };
  Graph& graph() {
    if (graph_.empty()) {
      const auto degree = static_cast<std::size_t>(sizes_.degree);
      std::vector<std::int64_t> offsets;
      for (std::int64_t i = 0; i <= sizes_.outputs; ++i) offsets.push_back(i * sizes_.degree);
      std::vector<std::int32_t> columns(static_cast<std::size_t>(sizes_.outputs) * degree);
      std::uniform_int_distribution<std::int32_t> draw(0,
                                                       static_cast<std::int32_t>(sizes_.rows - 1));
      for (std::int32_t& column : columns) column = draw(random_);
      for (auto row = columns.begin(); row != columns.end();
           row += static_cast<std::ptrdiff_t>(degree)) {
        std::sort(row, row + static_cast<std::ptrdiff_t>(degree));
      }
      graph_.push_back({array(offsets), array(columns), {}});
      Graph& made = graph_.back();
      made.csr = {sizes_.outputs, made.offsets.data(), made.columns.data(), nullptr};
    }
    return graph_.back();
  }
  double edges() const { return static_cast<double>(sizes_.outputs * sizes_.degree); }
  double structure_bytes() const { return 4 * edges() + 8.0 * static_cast<double>(sizes_.outputs); }
  double output_bytes() const { return 4.0 * static_cast<double>(sizes_.outputs * sizes_.width); }

  void aggregate_packed(const PackedRows& packed, MatrixView decoded) {
    const RowFormat format = packed.format;
    const CsrView csr = graph().csr;
    const Matrix out = empty(sizes_.outputs, sizes_.width);
    const double fixed = structure_bytes() + 2 * output_bytes();
    const auto row = static_cast<double>(format.row_bytes(packed.cols));
    const std::string bits = std::to_string(format.bits);
    measure("aggregate_halo/" + bits,
            {fixed + row * static_cast<double>(packed.rows), fixed + row * edges(), 0},
            [&] { kernels_.aggregate_halo(csr, packed, nullptr, out.view(), {}); });
    if (format.bits != 1) return;
    const double whole = 4.0 * static_cast<double>(packed.cols);
    const double unpacked = (row + 2 * whole) * static_cast<double>(packed.rows);
    measure(
        "decode_then_aggregate/" + bits,
        {fixed - output_bytes() + unpacked, fixed - output_bytes() + unpacked + whole * edges(), 0},
        [&] {
          cuda::decode_rows(*kernels_.device().queue(), packed, decoded);
          kernels_.aggregate_inner(csr, decoded, nullptr, 0, nullptr, out.view(), {});
        });
  }

  void aggregations(ConstMatrixView x) {
    const CsrView csr = graph().csr;
    const Matrix out = empty(sizes_.outputs, sizes_.width);
    const double fixed = structure_bytes() + output_bytes();
    const double row = 4.0 * static_cast<double>(x.cols);
    measure("aggregate_inner",
            {fixed + row * static_cast<double>(x.rows), fixed + row * edges(), 0},
            [&] { kernels_.aggregate_inner(csr, x, nullptr, 0, nullptr, out.view(), {}); });
    cusparse(x, out.view());
    // Rows are read once as fp32, written as bf16 and gathered as bf16.
    const BasicMatrix<std::uint16_t> stored(x.rows, x.cols, MemoryUse::workspace, &account_);
    const double written = 1.5 * row * static_cast<double>(x.rows);
    measure("aggregate_inner_bf16",
            {fixed + written + row / 2 * static_cast<double>(x.rows),
             fixed + written + row / 2 * edges(), 0},
            [&] {
              kernels_.aggregate_inner_bf16(csr, x, nullptr, 0, nullptr, out.view(), stored.view());
            });
  }

  /// The inner aggregation by cuSPARSE, with a value an edge. `out` holds the result to compare.
  void cusparse(ConstMatrixView x, MatrixView out) {
    const std::int64_t edge_count = sizes_.outputs * sizes_.degree;
    if (edge_count > std::numeric_limits<std::int32_t>::max()) return;
    std::vector<std::int32_t> offsets;
    for (std::int64_t i = 0; i <= sizes_.outputs; ++i) {
      offsets.push_back(static_cast<std::int32_t>(i * sizes_.degree));
    }
    const Array<std::int32_t> device_offsets = array(offsets);
    const Array<float> values =
        array(std::vector<float>(static_cast<std::size_t>(edge_count), 1.0F));
    const Matrix theirs = empty(out.rows, out.cols);
    kernels_.device().finish();
    try {
      CusparseSpmm spmm({sizes_.outputs, x.rows, edge_count, x.cols, device_offsets.data(),
                         graph().columns.data(), values.data(), x.data, x.stride,
                         theirs.view().data, theirs.view().stride},
                        kernels_.device().queue()->stream());
      const double fixed = 8 * edges() + 4.0 * static_cast<double>(sizes_.outputs) + output_bytes();
      const double row = 4.0 * static_cast<double>(x.cols);
      measure("aggregate_inner/cusparse",
              {fixed + row * static_cast<double>(x.rows), fixed + row * edges(), 0},
              [&] { spmm.run(); });
      const double difference = largest_difference(theirs.view(), out);
      if (!(difference < 1e-3)) {
        throw std::runtime_error("cuSPARSE's aggregation and ours differ by " +
                                 std::to_string(difference));
      }
    } catch (const Error& error) {
      std::fprintf(stderr, "aggregate_inner/cusparse is not measured: %s\n", error.what());
    }
  }

  double largest_difference(ConstMatrixView a, ConstMatrixView b) {
    const auto on_host = [&](ConstMatrixView m) {
      std::vector<float> host(static_cast<std::size_t>(m.rows * m.stride));
      kernels_.device().download(host.data(), m.data, host.size() * sizeof(float));
      return host;
    };
    const std::vector<float> first = on_host(a), second = on_host(b);
    double largest = 0;
    for (std::size_t i = 0; i < first.size(); ++i) {
      const double difference = std::abs(static_cast<double>(first[i]) - second[i]);
      if (std::isnan(difference)) return difference;
      largest = std::max(largest, difference);
    }
    return largest;
  }

  void rows(ConstMatrixView x) {
    const auto cols = static_cast<std::size_t>(x.cols);
    const auto count = static_cast<std::size_t>(x.rows);
    const Array<float> bias = array(std::vector<float>(cols, 0.1F));
    const Array<float> gain = array(std::vector<float>(cols, 1.0F));
    const Array<float> shift = array(std::vector<float>(cols, 0.1F));
    const Array<float> mean = array(std::vector<float>(count));
    const Array<float> rstd = array(std::vector<float>(count));
    std::vector<std::int64_t> ids(count);
    std::iota(ids.begin(), ids.end(), 0);
    const Array<std::int64_t> global_ids = array(ids);
    NormAct p;
    p.bias = bias.data();
    p.gain = gain.data();
    p.shift = shift.data();
    p.mean = mean.data();
    p.rstd = rstd.data();
    p.dropout = {32768, 1, global_ids.data()};
    const Matrix out = empty(x.rows, x.cols), d = normal(x.rows, x.cols);
    const double matrix = 4.0 * static_cast<double>(x.rows * x.cols);
    const auto moves = [&](double matrices) {
      return Work{matrices * matrix, matrices * matrix, 0};
    };
    measure("norm_act_forward", moves(2), [&] { kernels_.norm_act_forward(x, p, {}, out.view()); });
    const Array<float> sums = array(std::vector<float>(3 * cols));
    const auto sum_of = [&](std::size_t i) {
      return GradientView{sums.data() + i * cols, nullptr, 1, x.cols};
    };
    measure("norm_act_backward", moves(3), [&] {
      kernels_.norm_act_backward(x, p, d.view(), {}, {sum_of(0), sum_of(1), sum_of(2)});
    });
    measure("dropout", moves(2), [&] { kernels_.dropout(x, p.dropout, out.view()); });
    measure("add", moves(3), [&] { kernels_.add(out.view(), x); });
    measure("column_sums", moves(1), [&] { kernels_.column_sums(x, sum_of(0)); });
  }

  /// Losses read logits and write their gradients; the call waits for the sum of the losses.
  void losses() {
    const Matrix logits = normal(sizes_.rows, kClasses), d = empty(sizes_.rows, kClasses);
    std::vector<std::int32_t> targets(static_cast<std::size_t>(sizes_.rows));
    for (std::size_t i = 0; i < targets.size(); ++i) {
      targets[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(kClasses));
    }
    const Array<std::int32_t> target = array(targets);
    const double moved = static_cast<double>(sizes_.rows) * (8.0 * kClasses + 4.0);
    measure("softmax_cross_entropy", {moved, moved, 0}, [&] {
      kernels_.softmax_cross_entropy(logits.view(), {target.data()}, 1e-5F, d.view());
    });
  }

  /// Adam reads weight, gradient and two moments, and writes all but the gradient.
  void adam() {
    const std::int64_t count = sizes_.rows * sizes_.width;
    const auto values = [&](float value) {
      return array(std::vector<float>(static_cast<std::size_t>(count), value));
    };
    const Array<float> value = values(0.1F), gradient = values(0.01F), m = values(0), v = values(0);
    const double moved = 28.0 * static_cast<double>(count);
    measure("adam", {moved, moved, 0}, [&] {
      kernels_.adam(value.data(), {gradient.data(), nullptr, sizes_.rows, sizes_.width}, m.data(),
                    v.data(), {0.01F, 0.9F, 0.999F, 1e-8F, 0.1F, 0.001F, 5e-4F, 1.0F});
    });
  }

  const Sizes sizes_;
  Kernels& kernels_;
  Kernels& tf32_;
  const std::function<void(const std::vector<Result>&)> keep_;
  MemoryAccount account_;
  std::mt19937 random_{1};
  std::vector<Graph> graph_;
  std::vector<Result> results_;
};

int run(int argc, char** argv) {
  const Options options = parse(argc, argv);
  try {
    require_cuda_devices("heliograph_device_bench");
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
  const auto kernels = make_cuda_kernels(0, 1);
  const auto tf32 = make_cuda_kernels(0, 1, {.tf32 = true});
  const auto keep = [&](const std::vector<Result>& results) {
    if (!options.json.empty()) write_json(results, options.sizes, options.json);
  };
  Bench bench(options.sizes, *kernels, *tf32, keep);
  const bool whole = bench.run();
  print(bench.results());
  return whole ? 0 : 1;
}

}  // namespace
}  // namespace heliograph::bench

int main(int argc, char** argv) {
  try {
    return heliograph::bench::run(argc, argv);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
