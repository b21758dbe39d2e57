#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "core/buffer.hpp"
#include "core/noise.hpp"
#include "core/thread_pool.hpp"

namespace heliograph {

/// Sums values over K ranks as integers of few bits, without bias. In each block of kBlock values
/// the ranks agree on a power of two, the step, by the largest value of any rank; each value is
/// rounded at random to one of the two nearest multiples of the step, up or down with the
/// probabilities that make its mean the value (Gupta et al. 2015, section 3.1). Sums of these
/// integers are exact, so their order does not matter. The variance of a rank's value is at most
/// step^2 / 4, and the step at most 2^(3 - bits) times the largest value, or 2^(-99 - bits). A mean
/// may be up to 2^-24 of a step too large, as draws have 24 bits.
///
/// Every rank calls `sum` in the same order with the same sizes, on its own thread.
class IntegerSum {
 public:
  static constexpr std::size_t kBlock = 256;  ///< Values with a step of their own.

  /// `bits`: 16, 8 or 4. Draws depend on `seed`. `account` (may be null) counts the scratch space;
  /// references must outlive the object.
  IntegerSum(Communicator& comm, Channel channel, int bits, std::uint64_t seed, ThreadPool& threads,
             MemoryAccount* account);
  /// Aborts the run if messages are in flight because an exception passes.
  ~IntegerSum();
  IntegerSum(const IntegerSum&) = delete;
  IntegerSum& operator=(const IntegerSum&) = delete;

  /// Replaces the values by their sums over ranks, the same bits on every rank; draws are those of
  /// `clock`. A block with a value that is NaN, infinite or at least 2^125 on any rank becomes NaN.
  /// Throws Error(peer_lost).
  void sum(std::span<float> values, Clock clock);

  /// The bytes that all ranks send to sum `count` values.
  static std::int64_t bytes_sent(std::int64_t count, int bits, int ranks);
  /// The scratch space of one rank that sums `count` values, in bytes.
  static std::int64_t scratch_bytes(std::int64_t count, int bits, int ranks);

 private:
  void scatter(std::byte* data, std::size_t block_bytes);
  void gather(std::byte* data, std::size_t block_bytes);
  void exchange();
  void agree_on_exponents(std::span<const float> values);
  void encode(std::span<const float> values, Clock clock);
  template <class Integer>
  void add_codes();
  template <class Integer>
  void decode(std::span<float> values);
  template <class Integer>
  void add_and_decode(std::span<float> values);

  Communicator& comm_;
  Channel channel_;
  int bits_;
  std::uint64_t seed_;
  ThreadPool& threads_;
  MemoryAccount* account_;
  std::size_t blocks_ = 0;
  Buffer exponents_;  ///< Of each block; later those of all ranks' largest values.
  Buffer codes_;      ///< This rank's integers.
  Buffer others_;     ///< What the other ranks sent of this rank's blocks.
  Buffer sums_;       ///< Sums of integers.
  bool in_flight_ = false;
  std::vector<SendMessage> sends_;
  std::vector<RecvMessage> receives_;
};

}  // namespace heliograph
