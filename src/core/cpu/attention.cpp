#include "core/cpu/attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/cpu/aggregate_rows.hpp"
#include "core/cpu/aggregate_tiles.hpp"
#include "core/noise.hpp"

namespace heliograph::cpu {
namespace {

/// Entries of one head and one sign in the rows of a tile, with their weights.
template <class T>
struct Selection {
  std::int64_t* offsets;
  std::int32_t* columns;
  T* weights;
  std::int64_t count = 0;

  void put(std::int32_t column, T weight) {
    columns[count] = column;
    weights[count] = weight;
  }
};

/// Space for the entries of one tile.
template <class T>
struct TileSpace {
  std::int64_t* offsets;  ///< Of the tile's rows, with their own entries.
  std::uint64_t* keys;    ///< Of the entries' dropout.
  T* exact;               ///< Exact columns x entries.
  std::int32_t* columns;
  Selection<T> positive, other;
};

/// Takes arrays one after the other from memory, or only counts their bytes if it is null.
class Carver {
 public:
  explicit Carver(std::byte* memory) : memory_(memory) {}
  template <class T>
  T* take(std::int64_t count) {
    T* const array = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + bytes_);
    bytes_ += static_cast<std::size_t>(count) * sizeof(T) + 63;
    bytes_ -= bytes_ % 64;
    return array;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  std::size_t bytes_ = 0;
};

template <class T>
TileSpace<T> carve(Carver& carver, std::int64_t rows, std::int64_t entries,
                   std::int64_t exact_cols) {
  const auto selection = [&] {
    return Selection<T>{carver.take<std::int64_t>(rows + 1), carver.take<std::int32_t>(entries),
                        carver.take<T>(entries)};
  };
  return {carver.take<std::int64_t>(rows + 1),
          carver.take<std::uint64_t>(entries),
          carver.take<T>(entries * exact_cols),
          carver.take<std::int32_t>(entries),
          selection(),
          selection()};
}

template <class T>
T leaky(T x, float slope) {
  return x > 0 ? x : static_cast<T>(slope) * x;
}

WeightTotals<float> weigh(float* x, std::int64_t count, float row_score, float slope, float shift,
                          const float* shifts, const float* factors) {
  return weigh_entries(x, count, row_score, slope, shift, shifts, factors);
}
WeightTotals<double> weigh(double* x, std::int64_t count, double row_score, float slope,
                           double shift, const double* shifts, const double* factors) {
  WeightTotals<double> totals;
  for (std::int64_t i = 0; i < count; ++i) {
    const double score = row_score + x[i];
    const double w = std::exp(leaky(score, slope) - (shifts == nullptr ? shift : shifts[i]));
    x[i] = score > 0 ? w : -w;
    (score > 0 ? totals.positive : totals.other) += factors == nullptr ? w : w * factors[i];
  }
  return totals;
}

/// Rows of inner nodes.
struct InnerNeighbours {
  ConstMatrixView x, exact;
  std::int64_t head_cols;
  bool shared;

  static constexpr bool kFirst = true;  ///< These are the first entries of each row.
  bool counts_totals() const { return true; }
  float exact_value(std::int32_t j, std::int64_t c) const { return exact.row(j)[c]; }
  void prefetch(std::int32_t j) const { __builtin_prefetch(exact.row(j)); }
  ConstMatrixView head(int h) const { return shared ? x : x.col_range(h * head_cols, head_cols); }

  void sum(const Selection<float>& s, int h, const MatrixView& out) const {
    const CsrView csr{out.rows, s.offsets, s.columns, nullptr, s.weights};
    aggregate_inner_rows(csr, head(h), nullptr, 0, nullptr, out.col_range(h * head_cols, head_cols),
                         0, out.rows);
  }
  void sum(const Selection<double>& s, int h, const AccumulatorView& out) const {
    const ConstMatrixView rows = head(h);
    for (std::int64_t i = 0; i < out.rows; ++i) {
      double* to = out.row(i) + h * head_cols;
      std::fill_n(to, head_cols, 0.0);
      for (std::int64_t e = s.offsets[i]; e < s.offsets[i + 1]; ++e) {
        const float* from = rows.row(s.columns[e]);
        for (std::int64_t c = 0; c < head_cols; ++c) to[c] += s.weights[e] * from[c];
      }
    }
  }
};

/// Packed rows of halo nodes, in all columns or in a block of them.
struct HaloNeighbours {
  PackedRows packed;
  std::int64_t head_cols;
  bool shared;
  /// The exact columns of the first row.
  const std::byte* exact = packed.data + packed.format.exact_begin(packed.cols);

  static constexpr bool kFirst = false;
  bool counts_totals() const { return packed.col_begin == 0; }
  float exact_value(std::int32_t j, std::int64_t c) const {
    float value = 0;
    std::memcpy(&value, exact + static_cast<std::size_t>(j) * packed.stride + 4 * c, 4);
    return value;
  }
  void prefetch(std::int32_t j) const {
    __builtin_prefetch(exact + static_cast<std::size_t>(j) * packed.stride);
  }

  /// Those of the head's columns that `packed` has, with the columns of the sums as col_begin.
  PackedRows head(int h) const {
    PackedRows view = packed;
    if (shared) {
      view.col_begin += h * head_cols;
    } else if (packed.format.is_codes()) {
      view = packed.group(h);
    } else {
      view.col_begin = std::max(packed.col_begin, h * head_cols);
      view.cols = std::max<std::int64_t>(
          0, std::min(packed.col_begin + packed.cols, (h + 1) * head_cols) - view.col_begin);
      view.data += (view.col_begin - packed.col_begin) * packed.format.bits / 8;
    }
    return view;
  }
  void sum(const Selection<float>& s, int h, const MatrixView& out) const {
    const PackedRows rows = head(h);
    if (rows.cols == 0) return;
    const CsrView csr{out.rows, s.offsets, s.columns, nullptr, s.weights};
    aggregate_halo_rows(csr, rows, nullptr, out, 0, out.rows);
  }
  void sum(const Selection<double>& s, int h, const AccumulatorView& out) const {
    const PackedRows rows = head(h);
    for (std::int64_t i = 0; i < out.rows; ++i) {
      for (std::int64_t e = s.offsets[i]; e < s.offsets[i + 1]; ++e) {
        add_decoded_row(rows.row(s.columns[e]), rows.format, rows.cols, s.weights[e],
                        out.row(i) + rows.col_begin);
      }
    }
  }
};

/// Sums the entries of rows [begin, end).
template <class T, class Neighbours>
class AttentionTile {
 public:
  /// `memory`: of at least `bytes` for the tile's work.
  AttentionTile(const CsrView& csr, const Attention& attention, const Neighbours& neighbours,
                const AttentionTotals<T>& totals, std::int64_t begin, std::int64_t end,
                std::byte* memory)
      : csr_(csr),
        a_(attention),
        neighbours_(neighbours),
        totals_(totals),
        begin_(begin),
        rows_(end - begin),
        entries_(csr.offsets[end] - csr.offsets[begin] + (attention.own_rows ? rows_ : 0)) {
    Carver carver(memory);
    space_ = carve<T>(carver, rows_, entries_, a_.exact_cols());
  }

  /// Enough for a tile of this work (RowTiles): neither its rows nor its entries exceed it.
  static std::size_t bytes(std::int64_t work, std::int64_t exact_cols) {
    Carver counter(nullptr);
    carve<T>(counter, work, work, exact_cols);
    return counter.bytes();
  }

  void sum() {
    list_entries();
    for (int h = 0; h < a_.heads; ++h) {
      for (Selection<T>* s : {&space_.positive, &space_.other}) s->offsets[0] = s->count = 0;
      for (std::int64_t i = 0; i < rows_; ++i) weigh_row(i, h);
      neighbours_.sum(space_.positive, h, totals_.positive.row_range(begin_, rows_));
      neighbours_.sum(space_.other, h, totals_.other.row_range(begin_, rows_));
    }
  }

 private:
  T* exact(std::int64_t c) { return space_.exact + c * entries_; }

  void list_entries() {
    constexpr std::int64_t kAhead = 16;  // entries between the prefetch of a neighbour and its use
    const std::int64_t last = csr_.offsets[begin_ + rows_] - 1;
    std::int64_t k = 0;
    for (std::int64_t i = 0; i < rows_; ++i) {
      const std::int64_t row = begin_ + i;
      space_.offsets[i] = k;
      const auto put = [&](std::int32_t j) {
        space_.columns[k] = j;
        for (std::int64_t c = 0; c < a_.exact_cols(); ++c) {
          exact(c)[k] = static_cast<T>(neighbours_.exact_value(j, c));
        }
        if (a_.dropout.threshold != 0) space_.keys[k] = a_.dropout.key(row, j, a_.backward);
        ++k;
      };
      if (a_.own_rows) put(static_cast<std::int32_t>(row));
      for (std::int64_t e = csr_.offsets[row]; e < csr_.offsets[row + 1]; ++e) {
        neighbours_.prefetch(csr_.columns[std::min(e + kAhead, last)]);
        put(csr_.columns[e]);
      }
    }
    space_.offsets[rows_] = k;
  }

  /// The shift of a row's weights in forward, which is raised to the largest of these scores.
  T shift(std::int64_t i, int h, const T* scores, std::int64_t count, T row_score) {
    T* const row = totals_.rows.row(begin_ + i);
    if (Neighbours::kFirst) row[h] = std::numeric_limits<T>::lowest();
    if (!neighbours_.counts_totals() || count == 0) return row[h];
    const T highest = leaky(row_score + *std::max_element(scores, scores + count), a_.slope);
    if (Neighbours::kFirst) return row[h] = highest;
    if (highest <= row[h]) return row[h];
    const T factor = std::exp(row[h] - highest);
    row[h] = highest;
    row[a_.heads + h] *= factor;
    row[2 * a_.heads + h] *= factor;
    const std::int64_t cols = totals_.positive.cols / a_.heads;
    for (const BasicMatrixView<T>& part : {totals_.positive, totals_.other}) {
      T* const sums = part.row(begin_ + i) + h * cols;
      for (std::int64_t c = 0; c < cols; ++c) sums[c] *= factor;
    }
    return highest;
  }

  /// Weighs one head's entries of row i and selects them by sign.
  void weigh_row(std::int64_t i, int h) {
    const std::int64_t begin = space_.offsets[i], count = space_.offsets[i + 1] - begin;
    const auto row_score = static_cast<T>(a_.row_scores.row(begin_ + i)[h]);
    T* const w = exact(h) + begin;
    if (Neighbours::kFirst && a_.backward) totals_.rows.row(begin_ + i)[h] = 0;
    const WeightTotals<T> totals =
        a_.backward ? weigh(w, count, row_score, a_.slope, T{0}, exact(a_.heads + h) + begin,
                            exact(2 * a_.heads + h) + begin)
                    : weigh(w, count, row_score, a_.slope, shift(i, h, w, count, row_score),
                            nullptr, nullptr);
    if (neighbours_.counts_totals()) {
      T* const row = totals_.rows.row(begin_ + i);
      constexpr bool first = Neighbours::kFirst;
      row[a_.heads + h] = (first ? T{0} : row[a_.heads + h]) + totals.positive;
      row[2 * a_.heads + h] = (first ? T{0} : row[2 * a_.heads + h]) + totals.other;
    }
    if (a_.dropout.threshold != 0) {
      const T scale = static_cast<T>(a_.dropout.scale());
      for (std::int64_t e = 0; e < count; ++e) {
        const std::uint32_t noise = noise16(space_.keys[begin + e], static_cast<std::uint32_t>(h));
        w[e] *= noise >= a_.dropout.threshold ? scale : T{0};
      }
    }
    Selection<T>&positives = space_.positive, &others = space_.other;
    for (std::int64_t e = 0; e < count; ++e) {
      positives.put(space_.columns[begin + e], w[e]);
      others.put(space_.columns[begin + e], -w[e]);
      positives.count += w[e] > 0 ? 1 : 0;
      others.count += w[e] < 0 ? 1 : 0;
    }
    positives.offsets[i + 1] = positives.count;
    others.offsets[i + 1] = others.count;
  }

  const CsrView& csr_;
  const Attention& a_;
  const Neighbours& neighbours_;
  const AttentionTotals<T>& totals_;
  std::int64_t begin_, rows_, entries_;
  TileSpace<T> space_;
};

template <class T, class Neighbours>
void sum_tiles(const CsrView& csr, const Attention& attention, const Neighbours& neighbours,
               const AttentionTotals<T>& totals, AttentionSpace& space, ThreadPool& threads) {
  using Tile = AttentionTile<T, Neighbours>;
  const std::int64_t cols = totals.positive.cols;
  space.fit(Tile::bytes(RowTiles(csr, cols).most_work(), attention.exact_cols()),
            threads.threads());
  for_tiles(csr, cols, threads, [&](std::int64_t begin, std::int64_t end) {
    AttentionSpace::Place place(space);
    Tile(csr, attention, neighbours, totals, begin, end, place.memory()).sum();
  });
}

template <class Neighbours>
void sum_tiles(const CsrView& csr, const Attention& attention, const Neighbours& neighbours,
               const AttentionSums& sums, AttentionSpace& space, ThreadPool& threads) {
  if (sums.f64.rows.data != nullptr) {
    sum_tiles(csr, attention, neighbours, sums.f64, space, threads);
  } else {
    sum_tiles(csr, attention, neighbours, sums.f32, space, threads);
  }
}

template <class T>
void add_rounding(const KeptRows& kept, ConstMatrixView x, int heads, float factor, float slope,
                  const AttentionTotals<T>& sums, T* rounding, std::int64_t begin,
                  std::int64_t end) {
  const BasicMatrixView<T> out{rounding, 1, x.cols, x.cols};
  const std::int64_t cols = x.cols / heads;
  const HaloNeighbours neighbours{kept.packed, cols, false};
  std::int64_t offsets[] = {0, 1};
  T weight = 1;
  for (auto place = static_cast<std::int32_t>(begin); place < end; ++place) {
    const std::int32_t node = kept.nodes[place];
    if (node < 0) continue;
    for (std::int64_t c = 0; c < x.cols; ++c) out.data[c] = -static_cast<T>(x.row(node)[c]);
    const Selection<T> entry{offsets, &place, &weight, 1};
    for (int h = 0; h < heads; ++h) {
      neighbours.sum(entry, h, out);
      T dot = 0;
      for (std::int64_t c = h * cols; c < (h + 1) * cols; ++c) {
        dot += out.data[c] *
               (sums.positive.row(node)[c] + static_cast<T>(slope) * sums.other.row(node)[c]);
      }
      sums.rows.row(node)[h] += static_cast<T>(factor) * dot;
    }
  }
}

std::int64_t head_cols(const AttentionSums& sums, int heads) {
  return (sums.f64.rows.data != nullptr ? sums.f64.positive.cols : sums.f32.positive.cols) / heads;
}

}  // namespace

void AttentionSpace::fit(std::size_t bytes, int places) {
  free_.resize(static_cast<std::size_t>(places));
  for (Buffer& buffer : free_) {
    if (buffer.size() < bytes) buffer = Buffer(bytes, MemoryUse::workspace, account_);
  }
}

void attention_inner(const CsrView& csr, const Attention& attention, ConstMatrixView x,
                     ConstMatrixView exact, const AttentionSums& sums, AttentionSpace& space,
                     ThreadPool& threads) {
  sum_tiles(csr, attention,
            InnerNeighbours{x, exact, head_cols(sums, attention.heads), attention.shared}, sums,
            space, threads);
}

void attention_halo(const CsrView& csr, const Attention& attention, const PackedRows& packed,
                    const AttentionSums& sums, AttentionSpace& space, ThreadPool& threads) {
  sum_tiles(csr, attention,
            HaloNeighbours{packed, head_cols(sums, attention.heads), attention.shared}, sums, space,
            threads);
}

void attention_rounding(const KeptRows& kept, ConstMatrixView x, int heads, float factor,
                        float slope, const AttentionSums& sums, AttentionSpace& space,
                        ThreadPool& threads) {
  constexpr std::int64_t kRows = 256;  // of a task
  space.fit(static_cast<std::size_t>(x.cols) * sizeof(double), threads.threads());
  threads.for_ranges(kept.packed.rows, kRows, [&](std::int64_t begin, std::int64_t end) {
    AttentionSpace::Place place(space);
    const auto add = [&]<class T>(const AttentionTotals<T>& totals) {
      add_rounding(kept, x, heads, factor, slope, totals, reinterpret_cast<T*>(place.memory()),
                   begin, end);
    };
    if (sums.f64.rows.data != nullptr) {
      add(sums.f64);
    } else {
      add(sums.f32);
    }
  });
}

}  // namespace heliograph::cpu
