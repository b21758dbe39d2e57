// heliograph_device_bench [--rows=N] [--outputs=N] [--degree=N] [--width=N] [--copy-mib=N]
// [--gemm=N]
// [--seconds=X] [--json=FILE] [--devices]
//
// Kernels on CUDA device 0, each with the bytes that it must move, as a share of what a copy on
// that device moves in the same time; matrix products as a share of a large one's rate. --devices
// only counts devices. Exit codes: 0; 2 usage; 3 no CUDA device.

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/cuda/cuda_kernels.hpp"
#include "core/kernels.hpp"
#include "quant/codec.hpp"

namespace heliograph::bench {
namespace {

struct Sizes {
  std::int64_t rows = 200000;     ///< Neighbour or halo rows.
  std::int64_t outputs = 100000;  ///< Rows that are aggregated into.
  std::int64_t degree = 50;
  std::int64_t width = 256;
  std::int64_t copy_mib = 512;  ///< Of the copy that others are held against.
  std::int64_t gemm = 8192;     ///< Side of the product that others are held against.
  double seconds = 0.3;         ///< Of measuring, at least, for each kernel.
};

/// What one call moves and computes. `once`: everything that it reads or writes, counted once;
/// `gathered`: rows that it reads again for each edge counted each time.
struct Work {
  double once = 0;
  double gathered = 0;
  double flops = 0;
};

struct Result {
  std::string name;
  double seconds;
  Work work;
};

template <class T>
class Array {
 public:
  Array(Kernels& kernels, MemoryAccount& account, const std::vector<T>& host)
      : buffer_(host.size() * sizeof(T), MemoryRoom::workspace, &account), count_(host.size()) {
    kernels.upload(buffer_.data(), host.data(), count_ * sizeof(T));
  }
  T* data() const { return reinterpret_cast<T*>(buffer_.data()); }
  std::size_t size() const { return count_; }

 private:
  Buffer buffer_;
  std::size_t count_;
};

class Bench {
 public:
  Bench(const Sizes& sizes, Kernels& kernels)
      : sizes_(sizes), kernels_(kernels), account_(kernels.memory()) {}

  std::vector<Result> run() {
    copies();
    products();
    const Matrix x = normal(sizes_.rows, sizes_.width);
    codecs(view(x));
    aggregations(view(x));
    rows(view(x));
    return std::move(results_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// Median over rounds of calls; a round ends when all of its calls are done.
  void measure(const std::string& name, Work work, const std::function<void()>& call) {
    const auto round = [&](int calls) {
      const auto begin = Clock::now();
      for (int i = 0; i < calls; ++i) call();
      kernels_.finish();
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
  }

  MatrixView view(const Matrix& matrix) const {
    MatrixView v = matrix.view();
    v.device = kernels_.device();
    return v;
  }
  Matrix empty(std::int64_t rows, std::int64_t cols) {
    return Matrix(rows, cols, MemoryRoom::workspace, &account_);
  }
  Matrix normal(std::int64_t rows, std::int64_t cols) {
    const Matrix host(rows, cols, MemoryRoom::workspace, nullptr);
    const auto count = static_cast<std::size_t>(host.view().rows * host.view().stride);
    std::normal_distribution<float> draw;
    std::generate_n(host.view().data, count, [&] { return draw(random_); });
    Matrix device = empty(rows, cols);
    kernels_.upload(device.view().data, host.view().data, count * sizeof(float));
    return device;
  }
  template <class T>
  Array<T> array(const std::vector<T>& host) {
    return Array<T>(kernels_, account_, host);
  }

  void copies() {
    const std::size_t bytes = static_cast<std::size_t>(sizes_.copy_mib) << 20;
    const Buffer from(bytes, MemoryRoom::workspace, &account_);
    const Buffer to(bytes, MemoryRoom::workspace, &account_);
    const double moved = 2.0 * static_cast<double>(bytes);
    cudaStream_t stream = cuda::queue_of(kernels_).stream();
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
    measure("gemm/" + name, work(m, k, n),
            [&] { kernels_.gemm(view(a), view(b), false, false, view(c)); });
    const Array<float> g = array(std::vector<float>(static_cast<std::size_t>(k * n)));
    measure("gemm_gradient/" + name, work(m, k, n), [&] {
      kernels_.gemm_gradient(view(a), view(c), {g.data(), nullptr, k, n});
    });
  }

  void products() {
    product("large", sizes_.gemm, sizes_.gemm, sizes_.gemm);
    product("layer", sizes_.rows, sizes_.width, sizes_.width);
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
    const double values = static_cast<double>(x.rows * x.cols);
    for (const int bits : {1, 2, 4, 8, 16, 32}) {
      const auto codec = make_codec({bits, true}, kernels_);
      const std::size_t bytes = codec->encoded_bytes(x.rows, x.cols);
      const Buffer out(bytes, MemoryRoom::workspace, &account_);
      const double moved = 4 * values + static_cast<double>(bytes);
      const double keys = 12.0 * static_cast<double>(x.rows);
      std::uint64_t stream = 0;
      measure("encode/" + std::to_string(bits), {moved + keys, moved + keys, 0},
              [&] { codec->encode(x, selection, ++stream, out.data(), kernels_.threads()); });
      measure("decode/" + std::to_string(bits), {moved, moved, 0}, [&] {
        codec->decode({out.data(), x.rows, x.cols, 0, codec->format()}, view(decoded),
                      kernels_.threads());
      });
      aggregate_packed(codec->format(), {out.data(), x.rows, x.cols, 0, codec->format()}, *codec,
                       view(decoded));
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

  void aggregate_packed(RowFormat format, const PackedRows& packed, const Codec& codec,
                        MatrixView decoded) {
    const CsrView csr = graph().csr;
    const Matrix out = empty(sizes_.outputs, sizes_.width);
    const double fixed = structure_bytes() + 2 * output_bytes();
    const auto row = static_cast<double>(format.row_bytes(packed.cols));
    const std::string bits = std::to_string(format.bits);
    measure("aggregate_halo/" + bits,
            {fixed + row * static_cast<double>(packed.rows), fixed + row * edges(), 0},
            [&] { kernels_.aggregate_halo(csr, packed, nullptr, view(out), {}); });
    if (format.bits != 1) return;
    const double whole = 4.0 * static_cast<double>(packed.cols);
    const double unpacked = (row + 2 * whole) * static_cast<double>(packed.rows);
    measure(
        "decode_then_aggregate/" + bits,
        {fixed - output_bytes() + unpacked, fixed - output_bytes() + unpacked + whole * edges(), 0},
        [&] {
          codec.decode(packed, decoded, kernels_.threads());
          kernels_.aggregate_inner(csr, decoded, nullptr, false, nullptr, view(out), {});
        });
  }

  void aggregations(ConstMatrixView x) {
    const CsrView csr = graph().csr;
    const Matrix out = empty(sizes_.outputs, sizes_.width);
    const double fixed = structure_bytes() + output_bytes();
    const double row = 4.0 * static_cast<double>(x.cols);
    measure("aggregate_inner",
            {fixed + row * static_cast<double>(x.rows), fixed + row * edges(), 0},
            [&] { kernels_.aggregate_inner(csr, x, nullptr, false, nullptr, view(out), {}); });
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
    measure("norm_act_forward", moves(2), [&] { kernels_.norm_act_forward(x, p, {}, view(out)); });
    const Array<float> sums = array(std::vector<float>(3 * cols));
    const auto sum_of = [&](std::size_t i) {
      return GradientView{sums.data() + i * cols, nullptr, 1, x.cols};
    };
    measure("norm_act_backward", moves(3), [&] {
      kernels_.norm_act_backward(x, p, view(d), {}, {sum_of(0), sum_of(1), sum_of(2)});
    });
    measure("dropout", moves(2), [&] { kernels_.dropout(x, p.dropout, view(out)); });
    measure("add", moves(3), [&] { kernels_.add(view(out), x); });
    measure("column_sums", moves(1), [&] { kernels_.column_sums(x, sum_of(0)); });
  }

  const Sizes sizes_;
  Kernels& kernels_;
  MemoryAccount account_;
  std::mt19937 random_{1};
  std::vector<Graph> graph_;
  std::vector<Result> results_;
};

void print(const std::vector<Result>& results, const Sizes& sizes, std::FILE* json) {
  const auto rate_of = [&](std::string_view name, auto quantity) {
    const auto found = std::find_if(results.begin(), results.end(),
                                    [&](const Result& r) { return r.name == name; });
    return quantity(found->work) / found->seconds;
  };
  const double copy = rate_of("copy", [](const Work& w) { return w.once; });
  const double gemm = rate_of("gemm/large", [](const Work& w) { return w.flops; });
  std::printf("%-26s %10s %8s %9s %8s %9s\n", "kernel", "us", "GB/s", "of copy", "TFLOP/s",
              "of GEMM");
  if (json != nullptr) {
    std::fprintf(json,
                 "{\"rows\": %lld, \"outputs\": %lld, \"degree\": %lld, \"width\": %lld, "
                 "\"copy_bytes_per_second\": %.6g, \"gemm_flops\": %.6g, \"kernels\": [",
                 static_cast<long long>(sizes.rows), static_cast<long long>(sizes.outputs),
                 static_cast<long long>(sizes.degree), static_cast<long long>(sizes.width), copy,
                 gemm);
  }
  const char* comma = "";
  for (const Result& r : results) {
    const double bytes = r.work.once / r.seconds;
    const double flops = r.work.flops / r.seconds;
    std::printf("%-26s %10.1f %8.0f %8.1f%% %8.2f %8.1f%%\n", r.name.c_str(), r.seconds * 1e6,
                bytes / 1e9, 100 * bytes / copy, flops / 1e12, 100 * flops / gemm);
    if (json != nullptr) {
      std::fprintf(json,
                   "%s\n  {\"name\": \"%s\", \"seconds\": %.6g, \"bytes_once\": %.6g, "
                   "\"bytes_gathered\": %.6g, \"flops\": %.6g}",
                   comma, r.name.c_str(), r.seconds, r.work.once, r.work.gathered, r.work.flops);
    }
    comma = ",";
  }
  if (json != nullptr) std::fprintf(json, "\n]}\n");
}

bool take(std::string_view argument, std::string_view name, std::string& value) {
  const std::string prefix = "--" + std::string(name) + "=";
  if (!argument.starts_with(prefix)) return false;
  value = argument.substr(prefix.size());
  return true;
}

struct NamedSize {
  const char* name;
  std::int64_t Sizes::*field;
};
constexpr NamedSize kSizes[] = {{"rows", &Sizes::rows},         {"outputs", &Sizes::outputs},
                                {"degree", &Sizes::degree},     {"width", &Sizes::width},
                                {"copy-mib", &Sizes::copy_mib}, {"gemm", &Sizes::gemm}};

int run(int argc, char** argv) {
  Sizes sizes;
  std::string file;
  bool count_only = false;
  for (int i = 1; i < argc; ++i) {
    std::string value;
    const auto size = std::find_if(std::begin(kSizes), std::end(kSizes), [&](const auto& named) {
      return take(argv[i], named.name, value);
    });
    if (size != std::end(kSizes)) {
      sizes.*size->field = std::atoll(value.c_str());
    } else if (take(argv[i], "seconds", value)) {
      sizes.seconds = std::atof(value.c_str());
    } else if (take(argv[i], "json", value)) {
      file = value;
    } else if (std::string_view(argv[i]) == "--devices") {
      count_only = true;
    } else {
      std::fprintf(stderr, "%s is no option of this program\n", argv[i]);
      return 2;
    }
  }
  const bool all_positive = std::all_of(std::begin(kSizes), std::end(kSizes),
                                        [&](const auto& named) { return sizes.*named.field > 0; });
  if (!all_positive || !(sizes.seconds > 0)) {
    std::fprintf(stderr, "sizes and seconds must be positive\n");
    return 2;
  }
  if (cuda_devices() == 0) {
    int count = 0;
    std::fprintf(stderr, "no CUDA device: %s\n", cudaGetErrorString(cudaGetDeviceCount(&count)));
    return 3;
  }
  if (count_only) {
    std::printf("%d\n", cuda_devices());
    return 0;
  }
  const auto kernels = make_cuda_kernels(0, 1);
  const std::vector<Result> results = Bench(sizes, *kernels).run();
  std::FILE* json = file.empty() ? nullptr : std::fopen(file.c_str(), "w");
  if (!file.empty() && json == nullptr) {
    std::fprintf(stderr, "%s cannot be written\n", file.c_str());
    return 2;
  }
  print(results, sizes, json);
  if (json != nullptr && std::fclose(json) != 0) {
    std::fprintf(stderr, "%s cannot be written\n", file.c_str());
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace heliograph::bench

int main(int argc, char** argv) {
  try {
    return heliograph::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
