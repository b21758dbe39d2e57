// heliograph_device_bench [--rows=N] [--outputs=N] [--degrees=N,...] [--widths=N,...]
// [--copy-mib=N] [--gemm=N] [--gradient-rows=N] [--seconds=X] [--json=FILE]
//
// Times kernels on CUDA device 0, as device/timer.hpp says. The bytes that a kernel must move are a
// share of what a copy moves in the same time; matrix products, also with TF32, are a share of a
// large fp32 product's rate. Aggregations are timed at each degree and width, with cuSPARSE's
// product beside them if it can be loaded; all else at the first width. Weight gradients are timed
// in two modes of cuBLAS. FILE is written again after each kernel. Exit codes: 0; 1 not all was
// measured; 2 usage; 3 no CUDA device.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/cuda/runtime.hpp"
#include "core/kernels.hpp"
#include "device/aggregations.hpp"
#include "device/data.hpp"
#include "device/decode_rows.hpp"
#include "device/gradient_product.hpp"
#include "device/options.hpp"
#include "device/results.hpp"
#include "device/timer.hpp"
#include "heliograph/error.hpp"
#include "quant/codec.hpp"

namespace heliograph::bench {
namespace {

/// Columns of the logits: Reddit's 41 classes, which are not a multiple of 4.
constexpr std::int64_t kClasses = 41;

/// Weight gradients of products- and Reddit-shaped graphs and of small ones, whose sums are as long
/// as there are rows.
struct Gradient {
  std::int64_t rows, in, out;
};
constexpr Gradient kGradients[] = {{2449029, 256, 256}, {2449029, 128, 47}, {232965, 602, 256},
                                   {232965, 128, 41},   {20000, 256, 256},  {3000, 48, 128}};

class Bench {
 public:
  /// `tf32` are kernels of the same device with TF32 products. `keep` is called after each kernel,
  /// with all results so far.
  Bench(const Sizes& sizes, Kernels& kernels, Kernels& tf32,
        std::function<void(const std::vector<Result>&)> keep)
      : sizes_(sizes),
        kernels_(kernels),
        tf32_(tf32),
        timer_(sizes.seconds, std::move(keep)),
        data_(kernels) {}

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
    part("gradients", [&] { gradients(); });
    {
      const Matrix x = data_.normal(sizes_.rows, width());
      part("codecs", [&] { codecs(x.view()); });
      part("rows", [&] { rows(x.view()); });
    }
    part("aggregations", [&] { time_aggregations(sizes_, data_, timer_); });
    part("losses", [&] { losses(); });
    part("adam", [&] { adam(); });
    return whole;
  }
  const std::vector<Result>& results() const { return timer_.results(); }

 private:
  std::int64_t width() const { return sizes_.widths.front(); }

  Result& measure(const std::string& name, Work work, const std::function<void()>& call) {
    return timer_.add(kernels_, name, work, call);
  }

  void copies() {
    const std::size_t bytes = static_cast<std::size_t>(sizes_.copy_mib) << 20;
    const Buffer from(bytes, MemoryUse::workspace, &data_.account());
    const Buffer to(bytes, MemoryUse::workspace, &data_.account());
    const double moved = 2.0 * static_cast<double>(bytes);
    cudaStream_t stream = kernels_.device().queue()->stream();
    measure("copy", {moved, moved, 0}, [&] {
      cuda::check(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, stream),
                  "copy");
    });
  }

  void product(const std::string& name, std::int64_t m, std::int64_t k, std::int64_t n) {
    const Matrix a = data_.normal(m, k), b = data_.normal(k, n), c = data_.empty(m, n);
    const auto work = [](std::int64_t x, std::int64_t y, std::int64_t z) {
      const double moved = 4.0 * static_cast<double>(x * y + y * z + x * z);
      return Work{moved, moved, 2.0 * static_cast<double>(x) * static_cast<double>(y * z)};
    };
    const Array<float> g = data_.array(std::vector<float>(static_cast<std::size_t>(k * n)));
    const auto both = [&](Kernels& kernels, const std::string& suffix) {
      kernels_.device().finish();  // of the factors
      timer_.add(kernels, "gemm/" + name + suffix, work(m, k, n),
                 [&] { kernels.gemm(a.view(), b.view(), false, false, c.view()); });
      timer_.add(kernels, "gemm_gradient/" + name + suffix, work(m, k, n), [&] {
        kernels.gemm_gradient(a.view(), c.view(), {g.data(), nullptr, k, n});
      });
    };
    both(kernels_, "");
    both(tf32_, "/tf32");
  }

  /// A last layer's product with its bias, added in a separate pass and by the product itself.
  void product_with_bias(std::int64_t m, std::int64_t k, std::int64_t n) {
    const Matrix a = data_.normal(m, k), c = data_.empty(m, n);
    const Array<float> weights =
        data_.array(std::vector<float>(static_cast<std::size_t>(k * n), 0.1F));
    const Array<float> bias = data_.array(std::vector<float>(static_cast<std::size_t>(n), 0.1F));
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
    product("layer", sizes_.rows, width(), width());
    product_with_bias(sizes_.rows, width(), kClasses);
  }

  /// Weight gradients in both modes of cuBLAS, and whether a product has the same bits again.
  void gradients() {
    for (const Gradient s : kGradients) {
      const std::int64_t count = std::min(s.rows, sizes_.gradient_rows);
      const Matrix a = data_.normal(count, s.in), d = data_.normal(count, s.out);
      const auto cells = static_cast<std::size_t>(s.in * s.out);
      const Array<float> g = data_.array(std::vector<float>(cells));
      const double moved = 4.0 * static_cast<double>(count * (s.in + s.out) + s.in * s.out);
      const double flops = 2.0 * static_cast<double>(count) * static_cast<double>(cells);
      for (const bool pedantic : {true, false}) {
        GradientProduct product(*kernels_.device().queue(), pedantic, data_.account());
        const auto values = [&] {
          product.run(a.view(), d.view(), g.data());
          std::vector<float> host(cells);
          kernels_.device().download(host.data(), g.data(), cells * sizeof(float));
          return host;
        };
        const std::vector<float> first = values();
        const std::string name = "gradient/" + std::to_string(s.rows) + "x" + std::to_string(s.in) +
                                 "x" + std::to_string(s.out);
        Result& result =
            measure(name + (pedantic ? "/pedantic" : "/default"), {moved, moved, flops},
                    [&] { product.run(a.view(), d.view(), g.data()); });
        result.repeats = first == values();
      }
    }
  }

  void codecs(ConstMatrixView x) {
    const Matrix decoded = data_.empty(x.rows, x.cols);
    const double values = 4.0 * static_cast<double>(x.rows * x.cols);
    const double keys = 12.0 * static_cast<double>(x.rows);
    for (const int bits : {1, 2, 4, 8, 16, 32}) {
      Packed packed(data_, x, bits);
      const double moved = values + packed.bytes();
      measure("encode/" + std::to_string(bits), {moved + keys, moved + keys, 0},
              [&] { packed.encode(); });
      measure("decode/" + std::to_string(bits), {moved, moved, 0}, [&] {
        cuda::decode_rows(*kernels_.device().queue(), packed.rows(), decoded.view());
      });
    }
  }

  void rows(ConstMatrixView x) {
    const auto cols = static_cast<std::size_t>(x.cols);
    const auto count = static_cast<std::size_t>(x.rows);
    const Array<float> bias = data_.array(std::vector<float>(cols, 0.1F));
    const Array<float> gain = data_.array(std::vector<float>(cols, 1.0F));
    const Array<float> shift = data_.array(std::vector<float>(cols, 0.1F));
    const Array<float> mean = data_.array(std::vector<float>(count));
    const Array<float> rstd = data_.array(std::vector<float>(count));
    std::vector<std::int64_t> ids(count);
    std::iota(ids.begin(), ids.end(), 0);
    const Array<std::int64_t> global_ids = data_.array(ids);
    NormAct p;
    p.bias = bias.data();
    p.gain = gain.data();
    p.shift = shift.data();
    p.mean = mean.data();
    p.rstd = rstd.data();
    p.dropout = {32768, 1, global_ids.data()};
    const Matrix out = data_.empty(x.rows, x.cols), d = data_.normal(x.rows, x.cols);
    const double matrix = 4.0 * static_cast<double>(x.rows * x.cols);
    const auto moves = [&](double matrices) {
      return Work{matrices * matrix, matrices * matrix, 0};
    };
    measure("norm_act_forward", moves(2), [&] { kernels_.norm_act_forward(x, p, {}, out.view()); });
    const Array<float> sums = data_.array(std::vector<float>(3 * cols));
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

  /// Losses read logits and write their gradients. The call waits for the sum of the losses, so
  /// the time of the same call on one row is subtracted.
  void losses() {
    const Matrix logits = data_.normal(sizes_.rows, kClasses),
                 d = data_.empty(sizes_.rows, kClasses);
    std::vector<std::int32_t> targets(static_cast<std::size_t>(sizes_.rows));
    for (std::size_t i = 0; i < targets.size(); ++i) {
      targets[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(kClasses));
    }
    const Array<std::int32_t> target = data_.array(targets);
    const double moved = static_cast<double>(sizes_.rows) * (8.0 * kClasses + 4.0);
    const auto loss_of = [&](std::int64_t count) {
      const MatrixView z = logits.view(), g = d.view();
      kernels_.softmax_cross_entropy({z.data, count, z.cols, z.stride}, {target.data()}, 1e-5F,
                                     {g.data, count, g.cols, g.stride});
    };
    const double wait = timer_.measure(kernels_, [&] { loss_of(1); });
    timer_.add(
        kernels_, "softmax_cross_entropy", {moved, moved, 0}, [&] { loss_of(sizes_.rows); }, wait);
  }

  /// Adam reads weight, gradient and two moments, and writes all but the gradient.
  void adam() {
    const std::int64_t count = sizes_.rows * width();
    const auto values = [&](float value) {
      return data_.array(std::vector<float>(static_cast<std::size_t>(count), value));
    };
    const Array<float> value = values(0.1F), gradient = values(0.01F), m = values(0), v = values(0);
    const double moved = 28.0 * static_cast<double>(count);
    measure("adam", {moved, moved, 0}, [&] {
      kernels_.adam(value.data(), {gradient.data(), nullptr, sizes_.rows, width()}, m.data(),
                    v.data(), {0.01F, 0.9F, 0.999F, 1e-8F, 0.1F, 0.001F, 5e-4F, 1.0F});
    });
  }

  const Sizes sizes_;
  Kernels& kernels_;
  Kernels& tf32_;
  Timer timer_;
  Data data_;
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
