#include "workload.hpp"

#include <algorithm>
#include <numeric>
#include <random>

namespace heliograph::bench {
namespace {

Matrix make_matrix(std::int64_t rows) {
  return Matrix(rows, sizes().width, MemoryUse::workspace, nullptr);
}

}  // namespace

Sizes& sizes() {
  static Sizes value;
  return value;
}

ThreadPool& threads() {
  static ThreadPool pool(sizes().threads);
  return pool;
}

const Csr& random_graph() {
  static const Csr graph = [] {
    std::mt19937 random(1);
    std::uniform_int_distribution<std::int32_t> column(0,
                                                       static_cast<std::int32_t>(sizes().rows - 1));
    Csr csr;
    csr.columns.resize(static_cast<std::size_t>(sizes().outputs * sizes().degree));
    for (std::int32_t& c : csr.columns) c = column(random);
    for (auto row = csr.columns.begin(); row != csr.columns.end(); row += sizes().degree) {
      std::sort(row, row + sizes().degree);  // entries of a shard ascend
    }
    for (std::int64_t i = 0; i <= sizes().outputs; ++i) csr.offsets.push_back(i * sizes().degree);
    return csr;
  }();
  return graph;
}

ConstMatrixView random_features() {
  static const Matrix features = [] {
    Matrix m = make_matrix(sizes().rows);
    std::mt19937 random(2);
    std::normal_distribution<float> normal;
    for (std::int64_t r = 0; r < m.view().rows; ++r) {
      for (std::int64_t c = 0; c < m.view().cols; ++c) m.view().row(r)[c] = normal(random);
    }
    return m;
  }();
  return features.view();
}

MatrixView output() {
  static const Matrix out = [] {
    Matrix m = make_matrix(std::max(sizes().rows, sizes().outputs));
    std::fill_n(m.view().data, m.view().rows * m.view().stride, 0.0F);  // maps the pages
    return m;
  }();
  return out.view();
}

const RowSelection& gathered_rows() {
  static std::vector<std::int32_t> rows;
  static std::vector<std::int64_t> ids;
  static const RowSelection selection = [] {
    rows.resize(static_cast<std::size_t>(sizes().rows));
    ids.resize(rows.size());
    std::iota(rows.begin(), rows.end(), 0);
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(rows.begin(), rows.end(), std::mt19937(3));
    return RowSelection{rows, nullptr, ids.data()};
  }();
  return selection;
}

PackedRows encoded(int bits) {
  static Buffer bytes;
  static int held = 0;
  const RowFormat format{bits, true};
  if (held != bits) {
    const auto codec = make_cpu_codec(format);
    bytes =
        Buffer(codec->encoded_bytes(sizes().rows, sizes().width), MemoryUse::workspace, nullptr);
    codec->encode(random_features(), gathered_rows(), 1, bytes.data(), threads());
    held = bits;
  }
  return {bytes.data(), sizes().rows, sizes().width, 0, format};
}

}  // namespace heliograph::bench
