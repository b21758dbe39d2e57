#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "core/kernels.hpp"
#include "core/thread_pool.hpp"

namespace heliograph::cpu {

// Attention of Kernels (core/kernels.hpp) on a CPU, with the same bits for any number of threads.
// Sums are fp64 where AttentionSums::f64 is set.

/// Memory for as many tiles as there are threads, and for the sums of rows that go on from one tile
/// into the next.
class AttentionSpace {
 public:
  /// `account` counts the memory and must outlive the space; it may be null.
  explicit AttentionSpace(MemoryAccount* account) : account_(account) {}

  /// Makes `places` places of at least `bytes`. Allocates nothing if there are such.
  void fit(std::size_t bytes, int places);

  /// A tile that begins in a row of the tile before it.
  struct Continued {
    std::int64_t tile, row;
  };
  std::vector<Continued> continued;
  /// At least `bytes` for the sums of those tiles.
  std::byte* continued_memory(std::size_t bytes);

  /// One place, for as long as the object lives. Thread-safe.
  class Place {
   public:
    explicit Place(AttentionSpace& space) : space_(space) {
      const std::lock_guard lock(space.mutex_);
      buffer_ = std::move(space.free_.back());
      space.free_.pop_back();
    }
    ~Place() {
      const std::lock_guard lock(space_.mutex_);
      space_.free_.push_back(std::move(buffer_));
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    std::byte* memory() { return buffer_.data(); }

   private:
    AttentionSpace& space_;
    Buffer buffer_;
  };

 private:
  MemoryAccount* account_;
  std::mutex mutex_;
  std::vector<Buffer> free_;
  Buffer continued_memory_;
};

void attention_inner(const CsrView& csr, const Attention& attention, ConstMatrixView x,
                     ConstMatrixView exact, const AttentionSums& sums, AttentionSpace& space,
                     ThreadPool& threads);
void attention_halo(const CsrView& csr, const Attention& attention, const PackedRows& packed,
                    const AttentionSums& sums, AttentionSpace& space, ThreadPool& threads);

void attention_rounding(const KeptRows& kept, RowRange rows, ConstMatrixView x, int heads,
                        float factor, float slope, const AttentionSums& sums, AttentionSpace& space,
                        ThreadPool& threads);

// Single-threaded over rows [begin, end), and compiled for every Highway target.

void attention_scores_rows(ConstMatrixView x, const float* source, const float* target,
                           MatrixView s, MatrixView t, bool fp64, std::int64_t begin,
                           std::int64_t end);
void attention_output_rows(const AttentionSums& sums, int heads, MatrixView out,
                           MatrixView positive, MatrixView share, MatrixView log_total,
                           std::int64_t begin, std::int64_t end);
void attention_target_gradient_rows(ConstMatrixView d, float factor, float slope,
                                    ConstMatrixView out, ConstMatrixView positive,
                                    ConstMatrixView share, MatrixView r, MatrixView dt, bool fp64,
                                    std::int64_t begin, std::int64_t end);
/// Writes the gradients of source and target over these rows to `partial`: 2 * x.cols values,
/// double for sums in fp64, else float.
void attention_source_gradient_rows(ConstMatrixView x, const float* source, const float* target,
                                    float factor, float slope, const AttentionSums& sums,
                                    ConstMatrixView dt, MatrixView dx, void* partial,
                                    std::int64_t begin, std::int64_t end);

/// The weights of a row's entries by the sign of their scores.
template <class T>
struct WeightTotals {
  T positive = 0, other = 0;
};

/// Replaces the neighbours' scores x of `count` entries of one row by the weights before dropout,
/// exp(LeakyReLU(row_score + x) - shift), negated where row_score + x is not above 0. Backward,
/// each entry has a shift of its own in `shifts` and a factor in the totals; forward, both are
/// null, and all have `shift`. Returns the totals of the weights.
WeightTotals<float> weigh_entries(float* x, std::int64_t count, float row_score, float slope,
                                  float shift, const float* shifts, const float* factors);

}  // namespace heliograph::cpu
