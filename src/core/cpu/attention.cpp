#include "core/cpu/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cpu/aggregate_tiles.hpp"
#include "core/cpu/attention_neighbours.hpp"
#include "core/noise.hpp"

namespace heliograph::cpu {
namespace {

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

template <class T>
AttentionTotals<T> row_of(const AttentionTotals<T>& totals, std::int64_t row) {
  return {totals.positive.row_range(row, 1), totals.other.row_range(row, 1),
          totals.rows.row_range(row, 1)};
}

/// Rewrites one head's forward sums of a row for another shift of the weights.
template <class T>
void rescale(const AttentionTotals<T>& row, int heads, int h, T shift) {
  T* const totals = row.rows.data;
  const T factor = std::exp(totals[h] - shift);
  totals[h] = shift;
  totals[heads + h] *= factor;
  totals[2 * heads + h] *= factor;
  const std::int64_t cols = row.positive.cols / heads;
  for (T* sums : {row.positive.data + h * cols, row.other.data + h * cols}) {
    for (std::int64_t c = 0; c < cols; ++c) sums[c] *= factor;
  }
}

/// Sets a part of a row's sums to none. Its shift is the row's, unless this part `counts_totals`
/// and so finds its own.
template <class T>
void begin_part(const AttentionTotals<T>& row, const AttentionTotals<T>& part,
                const Attention& attention, bool counts_totals) {
  for (const BasicMatrixView<T>& sums : {part.positive, part.other, part.rows}) {
    std::fill_n(sums.data, sums.cols, T{0});
  }
  for (int h = 0; h < attention.heads && !attention.backward; ++h) {
    part.rows.data[h] = counts_totals ? std::numeric_limits<T>::lowest() : row.rows.data[h];
  }
}

/// Adds a part of a row's sums, which may have another shift, to the row's.
template <class T>
void add_part(const AttentionTotals<T>& row, const AttentionTotals<T>& part,
              const Attention& attention) {
  const int heads = attention.heads;
  for (int h = 0; h < heads && !attention.backward; ++h) {
    const T shift = std::max(row.rows.data[h], part.rows.data[h]);
    rescale(row, heads, h, shift);
    rescale(part, heads, h, shift);
  }
  const auto add = [](const BasicMatrixView<T>& to, const BasicMatrixView<T>& from,
                      std::int64_t begin) {
    for (std::int64_t c = begin; c < to.cols; ++c) to.data[c] += from.data[c];
  };
  add(row.positive, part.positive, 0);
  add(row.other, part.other, 0);
  add(row.rows, part.rows, heads);  // of the totals
}

/// Sums the entries of a part of the block. The first row's go into `first`, the others' into
/// `totals`.
template <class T, class Neighbours>
class AttentionTile {
 public:
  /// `memory`: of at least `bytes` for the tile's work. `first` may be a row of `totals`.
  AttentionTile(const CsrView& csr, const Attention& attention, const Neighbours& neighbours,
                const AttentionTotals<T>& totals, const AttentionTotals<T>& first,
                const RowTiles::Tile& tile, std::byte* memory)
      : csr_(csr),
        a_(attention),
        neighbours_(neighbours),
        totals_(totals),
        first_(first),
        tile_(tile),
        rows_(tile.end - tile.begin),
        entries_(tile.last - tile.first + (attention.own_rows ? rows_ : 0)) {
    Carver carver(memory);
    space_ = carve<T>(carver, rows_, entries_, a_.exact_cols());
  }

  /// Enough for a part of this work (RowTiles): neither its rows nor its entries exceed it.
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
      sum_selected(space_.positive, h, totals_.positive, first_.positive);
      sum_selected(space_.other, h, totals_.other, first_.other);
    }
  }

 private:
  T* exact(std::int64_t c) { return space_.exact + c * entries_; }
  bool continued() const { return tile_.first > csr_.offsets[tile_.begin]; }
  AttentionTotals<T> row_totals(std::int64_t i) const {
    return i == 0 ? first_ : row_of(totals_, tile_.begin + i);
  }

  void list_entries() {
    constexpr std::int64_t kAhead = 16;  // entries between the prefetch of a neighbour and its use
    std::int64_t k = 0, e = tile_.first;
    for (std::int64_t i = 0; i < rows_; ++i) {
      const std::int64_t row = tile_.begin + i;
      space_.offsets[i] = k;
      const auto put = [&](std::int32_t j) {
        space_.columns[k] = j;
        for (std::int64_t c = 0; c < a_.exact_cols(); ++c) {
          exact(c)[k] = static_cast<T>(neighbours_.exact_value(j, c));
        }
        if (a_.dropout.threshold != 0) space_.keys[k] = a_.dropout.key(row, j, a_.backward);
        ++k;
      };
      if (a_.own_rows && e == csr_.offsets[row]) put(static_cast<std::int32_t>(row));
      for (const std::int64_t end = std::min(csr_.offsets[row + 1], tile_.last); e < end; ++e) {
        neighbours_.prefetch(csr_.columns[std::min(e + kAhead, tile_.last - 1)]);
        put(csr_.columns[e]);
      }
    }
    space_.offsets[rows_] = k;
  }

  void sum_selected(const Selection<T>& s, int h, const BasicMatrixView<T>& all,
                    const BasicMatrixView<T>& first) const {
    if (!continued()) return neighbours_.sum(s, h, all.row_range(tile_.begin, rows_));
    neighbours_.sum(s, h, first);
    Selection<T> others = s;
    ++others.offsets;
    neighbours_.sum(others, h, all.row_range(tile_.begin + 1, rows_ - 1));
  }

  /// The shift of a row's weights in forward, which is raised to the largest of these scores.
  T shift(const AttentionTotals<T>& row, int h, const T* scores, std::int64_t count, T row_score) {
    T& current = row.rows.data[h];
    if (Neighbours::kFirst) current = std::numeric_limits<T>::lowest();
    if (!neighbours_.counts_totals() || count == 0) return current;
    const T highest = leaky(row_score + *std::max_element(scores, scores + count), a_.slope);
    if (Neighbours::kFirst) return current = highest;
    if (highest > current) rescale(row, a_.heads, h, highest);
    return current;
  }

  /// Weighs one head's entries of row i and selects them by sign.
  void weigh_row(std::int64_t i, int h) {
    const std::int64_t begin = space_.offsets[i], count = space_.offsets[i + 1] - begin;
    const auto row_score = static_cast<T>(a_.row_scores.row(tile_.begin + i)[h]);
    T* const w = exact(h) + begin;
    const AttentionTotals<T> sums = row_totals(i);
    T* const row = sums.rows.data;
    if (Neighbours::kFirst && a_.backward) row[h] = 0;
    const WeightTotals<T> totals =
        a_.backward ? weigh(w, count, row_score, a_.slope, T{0}, exact(a_.heads + h) + begin,
                            exact(2 * a_.heads + h) + begin)
                    : weigh(w, count, row_score, a_.slope, shift(sums, h, w, count, row_score),
                            nullptr, nullptr);
    if (neighbours_.counts_totals()) {
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
  const AttentionTotals<T> first_;
  const RowTiles::Tile tile_;
  std::int64_t rows_, entries_;
  TileSpace<T> space_;
};

/// Sums of a row for each of `count` tiles that continue it.
template <class T>
AttentionTotals<T> carve_continued(Carver& carver, std::int64_t count, std::int64_t cols,
                                   int heads) {
  const auto matrix = [&](std::int64_t width) {
    const std::int64_t stride = padded_stride<T>(width);
    return BasicMatrixView<T>{carver.take<T>(count * stride), count, width, stride};
  };
  return {matrix(cols), matrix(cols), matrix(3 * std::int64_t{heads})};
}

/// Sums the block by tiles. A long row has sums of its own in each tile after its first one, and
/// they are added in the order of tiles, so that the bits do not depend on the threads.
template <class T, class Neighbours>
void sum_tiles(const CsrView& csr, const Attention& attention, const Neighbours& neighbours,
               const AttentionTotals<T>& totals, AttentionSpace& space, ThreadPool& threads) {
  using Tile = AttentionTile<T, Neighbours>;
  const std::int64_t cols = totals.positive.cols;
  const RowTiles tiles(csr, cols);
  space.fit(Tile::bytes(tiles.most_work(), attention.exact_cols()), threads.threads());
  auto& continued = space.continued;
  continued.clear();
  tiles.for_continued([&](std::int64_t tile, std::int64_t row) {
    continued.push_back({tile, row});
  });
  Carver counter(nullptr);
  const auto count = static_cast<std::int64_t>(continued.size());
  carve_continued<T>(counter, count, cols, attention.heads);
  Carver carver(space.continued_memory(counter.bytes()));
  const AttentionTotals<T> parts = carve_continued<T>(carver, count, cols, attention.heads);
  threads.run(tiles.count(), [&](std::int64_t t) {
    const RowTiles::Tile tile = tiles.part(t);
    if (tile.begin == tile.end) return;
    const auto found = std::lower_bound(
        continued.begin(), continued.end(), t,
        [](const AttentionSpace::Continued& c, std::int64_t value) { return c.tile < value; });
    const bool continues = found != continued.end() && found->tile == t;
    const AttentionTotals<T> row = row_of(totals, tile.begin);
    const AttentionTotals<T> first = continues ? row_of(parts, found - continued.begin()) : row;
    // The first entries of a row set its sums; later ones are added to what is there.
    if (continues && !Neighbours::kFirst) {
      begin_part(row, first, attention, neighbours.counts_totals());
    }
    AttentionSpace::Place place(space);
    Tile(csr, attention, neighbours, totals, first, tile, place.memory()).sum();
  });
  for (std::int64_t k = 0; k < count; ++k) {
    add_part(row_of(totals, continued[k].row), row_of(parts, k), attention);
  }
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
void add_rounding(const KeptRows& kept, RowRange rows, ConstMatrixView x, int heads, float factor,
                  float slope, const AttentionTotals<T>& sums, T* rounding, std::int64_t begin,
                  std::int64_t end) {
  const BasicMatrixView<T> out{rounding, 1, x.cols, x.cols};
  const std::int64_t cols = x.cols / heads;
  const HaloNeighbours neighbours{kept.packed, cols, false};
  std::int64_t offsets[] = {0, 1};
  T weight = 1;
  for (auto place = static_cast<std::int32_t>(begin); place < end; ++place) {
    const std::int32_t node = kept.nodes[place];
    if (node < rows.begin || node >= rows.end) continue;
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

std::byte* AttentionSpace::continued_memory(std::size_t bytes) {
  if (continued_memory_.size() < bytes) {
    continued_memory_ = Buffer(bytes, MemoryUse::workspace, account_);
  }
  return continued_memory_.data();
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

void attention_rounding(const KeptRows& kept, RowRange rows, ConstMatrixView x, int heads,
                        float factor, float slope, const AttentionSums& sums, AttentionSpace& space,
                        ThreadPool& threads) {
  constexpr std::int64_t kRows = 256;  // of a task
  space.fit(static_cast<std::size_t>(x.cols) * sizeof(double), threads.threads());
  threads.for_ranges(kept.packed.rows, kRows, [&](std::int64_t begin, std::int64_t end) {
    AttentionSpace::Place place(space);
    const auto add = [&]<class T>(const AttentionTotals<T>& totals) {
      add_rounding(kept, rows, x, heads, factor, slope, totals,
                   reinterpret_cast<T*>(place.memory()), begin, end);
    };
    if (sums.f64.rows.data != nullptr) {
      add(sums.f64);
    } else {
      add(sums.f32);
    }
  });
}

}  // namespace heliograph::cpu
