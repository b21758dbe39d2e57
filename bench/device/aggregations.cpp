#include "device/aggregations.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <string>

#include "core/cuda/runtime.hpp"
#include "device/cusparse_spmm.hpp"
#include "device/decode_rows.hpp"
#include "heliograph/error.hpp"

namespace heliograph::bench {
namespace {

/// A graph in which each output has `degree` random neighbours, in increasing order.
struct Graph {
  Graph(const Sizes& sizes, Data& data, std::int64_t degree)
      : outputs(sizes.outputs),
        edges(outputs * degree),
        offsets(data.array(every(degree))),
        columns(data.array(draw(sizes, data, degree))),
        csr{outputs, offsets.data(), columns.data(), nullptr} {}
  std::vector<std::int64_t> every(std::int64_t degree) const {
    std::vector<std::int64_t> begins(static_cast<std::size_t>(outputs) + 1);
    for (std::size_t i = 0; i < begins.size(); ++i) {
      begins[i] = static_cast<std::int64_t>(i) * degree;
    }
    return begins;
  }
  std::vector<std::int32_t> draw(const Sizes& sizes, Data& data, std::int64_t degree) const {
    std::vector<std::int32_t> drawn(static_cast<std::size_t>(edges));
    const auto last = static_cast<std::int32_t>(sizes.rows - 1);
    std::uniform_int_distribution<std::int32_t> any(0, last);
    for (std::int32_t& column : drawn) column = any(data.random());
    for (auto row = drawn.begin(); row != drawn.end(); row += degree) {
      std::sort(row, row + degree);
    }
    return drawn;
  }

  std::int64_t outputs, edges;
  Array<std::int64_t> offsets;
  Array<std::int32_t> columns;
  CsrView csr;
};

class Aggregations {
 public:
  Aggregations(const Sizes& sizes, Data& data, Timer& timer)
      : sizes_(sizes), data_(data), kernels_(data.kernels()), timer_(timer) {}

  void measure_all() {
    for (const std::int64_t degree : sizes_.degrees) {
      Graph graph(sizes_, data_, degree);
      for (const std::int64_t columns : sizes_.widths) {
        const std::string size = "/d" + std::to_string(degree) + "/w" + std::to_string(columns);
        const Matrix x = data_.normal(sizes_.rows, columns);
        const bool whole = degree == sizes_.degrees.front() && columns == sizes_.widths.front();
        aggregate_inner(graph, x.view(), size);
        for (const int bits : whole ? std::vector{1, 2, 4, 8, 16, 32} : std::vector{1, 4}) {
          aggregate_packed(graph, x.view(), bits, size);
        }
      }
    }
    if (!wrong_.empty()) throw std::runtime_error(wrong_);  // when the other sizes are measured too
  }

 private:
  /// The work of an aggregation of rows of `row` bytes that also moves `fixed` bytes.
  Work gather(const Graph& graph, double fixed, double row) const {
    const double source = row * static_cast<double>(sizes_.rows);
    const double gathered = row * static_cast<double>(graph.edges);
    return {fixed + source, fixed + gathered, 0, source};
  }

  void aggregate_packed(const Graph& graph, ConstMatrixView x, int bits, const std::string& size) {
    const Packed encoded(data_, x, bits);
    const PackedRows packed = encoded.rows();
    const Matrix out = data_.empty(graph.outputs, x.cols);
    const double structure = structure_bytes(graph), written = output_bytes(graph, x.cols);
    const auto row = static_cast<double>(packed.format.row_bytes(packed.cols));
    const std::string name = std::to_string(bits) + size;
    timer_.add(kernels_, "aggregate_halo/" + name, gather(graph, structure + 2 * written, row),
               [&] { kernels_.aggregate_halo(graph.csr, packed, nullptr, out.view(), {}); });
    if (bits != 1) return;
    const Matrix decoded = data_.empty(x.rows, x.cols);
    const double whole = 4.0 * static_cast<double>(x.cols);
    const double unpacked = (row + whole) * static_cast<double>(x.rows);
    timer_.add(kernels_, "decode_then_aggregate/" + name,
               gather(graph, structure + written + unpacked, whole), [&] {
                 cuda::decode_rows(*kernels_.device().queue(), packed, decoded.view());
                 kernels_.aggregate_inner(graph.csr, decoded.view(), nullptr, 0, nullptr,
                                          out.view(), {});
               });
  }

  static double structure_bytes(const Graph& graph) {
    return 4 * static_cast<double>(graph.edges) + 8 * static_cast<double>(graph.outputs);
  }
  static double output_bytes(const Graph& graph, std::int64_t columns) {
    return 4.0 * static_cast<double>(graph.outputs * columns);
  }

  void aggregate_inner(Graph& graph, ConstMatrixView x, const std::string& size) {
    const Matrix out = data_.empty(graph.outputs, x.cols);
    const double fixed = structure_bytes(graph) + output_bytes(graph, x.cols);
    const double row = 4.0 * static_cast<double>(x.cols);
    timer_.add(kernels_, "aggregate_inner" + size, gather(graph, fixed, row), [&] {
      kernels_.aggregate_inner(graph.csr, x, nullptr, 0, nullptr, out.view(), {});
    });
    cusparse(graph, x, out.view(), size);
    // Rows are read once as fp32, written as bf16 and gathered as bf16.
    const BasicMatrix<std::uint16_t> stored(x.rows, x.cols, MemoryUse::workspace, &data_.account());
    const double written = 1.5 * row * static_cast<double>(x.rows);
    timer_.add(kernels_, "aggregate_inner_bf16" + size, gather(graph, fixed + written, row / 2),
               [&] {
                 kernels_.aggregate_inner_bf16(graph.csr, x, nullptr, 0, nullptr, out.view(),
                                               stored.view());
               });
  }

  /// The inner aggregation by cuSPARSE, with a value an edge. `out` holds the result to compare.
  void cusparse(const Graph& graph, ConstMatrixView x, MatrixView out, const std::string& size) {
    if (graph.edges > std::numeric_limits<std::int32_t>::max()) return;
    const std::vector<std::int64_t> begins = graph.every(graph.edges / graph.outputs);
    const Array<std::int32_t> offsets =
        data_.array(std::vector<std::int32_t>(begins.begin(), begins.end()));
    const Array<float> values =
        data_.array(std::vector<float>(static_cast<std::size_t>(graph.edges), 1.0F));
    const Matrix theirs = data_.empty(out.rows, out.cols);
    kernels_.device().finish();
    try {
      CusparseSpmm spmm(
          {graph.outputs, x.rows, graph.edges, x.cols, offsets.data(), graph.columns.data(),
           values.data(), x.data, x.stride, theirs.view().data, theirs.view().stride},
          kernels_.device().queue()->stream());
      const double fixed = structure_bytes(graph) + 4 * static_cast<double>(graph.edges) +
                           output_bytes(graph, x.cols);
      timer_.add(kernels_, "aggregate_inner_cusparse" + size,
                 gather(graph, fixed, 4.0 * static_cast<double>(x.cols)), [&] { spmm.run(); });
      const double difference = largest_difference(theirs.view(), out);
      if (!(difference < 1e-3)) {
        wrong_ += "cuSPARSE's aggregation" + size + " and ours differ by " +
                  std::to_string(difference) + "; ";
      }
    } catch (const Error& error) {
      std::fprintf(stderr, "aggregate_inner_cusparse is not measured: %s\n", error.what());
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

  const Sizes& sizes_;
  Data& data_;
  Kernels& kernels_;
  Timer& timer_;
  std::string wrong_;
};

}  // namespace

void time_aggregations(const Sizes& sizes, Data& data, Timer& timer) {
  Aggregations(sizes, data, timer).measure_all();
}

}  // namespace heliograph::bench
