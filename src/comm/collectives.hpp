#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "core/buffer.hpp"

namespace heliograph {

// Collectives made of point-to-point messages. Every rank calls them in the same order with the
// same sizes. With the same number of ranks, results are the same bits in every run.

/// Sums values over K ranks, element by element, in rank order, by a reduce-scatter and an
/// all-gather. Each rank sends 2 (K - 1) / K of the bytes. The object keeps the scratch space of
/// each sum between two calls of `finish`, so that repeating the same sums allocates nothing.
///
/// Several sums can be under way while the rank computes. The order in which their messages are
/// posted does not depend on when messages arrive: scatter 0, scatter 1, gather 0, scatter 2,
/// gather 1, ...
class AllReduce {
 public:
  /// `account` (may be null) counts the scratch space and must outlive the object.
  AllReduce(Communicator& comm, Channel channel, MemoryAccount* account = nullptr)
      : comm_(comm), channel_(channel), account_(account) {}
  /// Aborts the run if sums are under way, for example when an exception passes.
  ~AllReduce();
  AllReduce(const AllReduce&) = delete;
  AllReduce& operator=(const AllReduce&) = delete;

  /// Starts to sum `values`, which must not be touched until `finish` returns. Does not wait, but
  /// continues earlier sums whose messages have arrived. Throws what Communicator::post throws.
  void begin(std::span<float> values) { start(values); }
  void begin(std::span<double> values) { start(values); }
  void begin(std::span<std::int64_t> values) { start(values); }

  /// Waits until all sums that began are done. Throws what Communicator::wait throws.
  void finish();

  template <class T>
  void sum(std::span<T> values) {
    begin(values);
    finish();
  }

 private:
  using SumBlocks = void (*)(std::byte* mine, const std::byte* others, std::size_t bytes,
                             std::size_t stride, int rank, int ranks);

  struct Sum {
    std::byte* data = nullptr;
    std::size_t count = 0;
    std::size_t element_bytes = 0;
    SumBlocks add = nullptr;
    Ticket ticket;   ///< The ticket of the scatter, later that of the gather.
    Buffer scratch;  ///< The other ranks' values of this rank's block.
  };

  template <class T>
  void start(std::span<T> values);
  bool advance(bool last);
  void scatter(Sum& sum);
  void gather(Sum& sum);
  std::span<std::byte> block(const Sum& sum, int rank) const;

  Communicator& comm_;
  Channel channel_;
  MemoryAccount* account_;
  std::vector<Sum> sums_;  ///< Never shrinks, so that scratch space is kept.
  std::size_t begun_ = 0, scattered_ = 0, gathered_ = 0;
  std::vector<SendMessage> sends_;
  std::vector<RecvMessage> receives_;
};

/// Returns when every rank has called it.
void barrier(Communicator& comm, Channel channel);

/// Returns the concatenation of all ranks' bytes, in rank order, on rank 0, and nothing on others.
std::vector<std::byte> gather_to_root(Communicator& comm, Channel channel,
                                      std::span<const std::byte> mine);

}  // namespace heliograph
