#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "core/buffer.hpp"

namespace heliograph {

// Collectives over point-to-point messages. Every rank calls them in the same order with the same
// sizes. The same number of ranks gives the same bits, run after run.

/// Sums over ranks, element by element, in rank order: reduce-scatter, then all-gather.
/// Each rank sends 2 (K - 1) / K of the bytes. Scratch space is kept by the object for each of the
/// sums between two finishes, sized on first use, so that the same sums again allocate nothing.
///
/// Several sums can be under way while the rank computes. Their messages are posted in one order
/// that does not depend on when they arrive: scatter 0, scatter 1, gather 0, scatter 2, gather 1,
/// ...
class AllReduce {
 public:
  /// `account` (may be null) counts the scratch space and must outlive the object.
  AllReduce(Communicator& comm, Channel channel, MemoryAccount* account = nullptr)
      : comm_(comm), channel_(channel), account_(account) {}
  /// Aborts the run if sums are under way, as when an exception passes.
  ~AllReduce();
  AllReduce(const AllReduce&) = delete;
  AllReduce& operator=(const AllReduce&) = delete;

  /// Starts to sum `values`, which must not be touched until `finish` returns. Never waits. Also
  /// goes on with earlier sums whose messages have come. Throws what Communicator::post throws.
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
    Ticket ticket;   ///< Of the scatter, later of the gather.
    Buffer scratch;  ///< What the others hold of this rank's block.
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
  std::vector<Sum> sums_;  ///< Never shrinks: keeps its scratch.
  std::size_t begun_ = 0, scattered_ = 0, gathered_ = 0;
  std::vector<SendMessage> sends_;
  std::vector<RecvMessage> receives_;
};

/// Returns when every rank has called it.
void barrier(Communicator& comm, Channel channel);

/// Rank 0 receives the concatenation, in rank order, of what the ranks hold; others get nothing.
std::vector<std::byte> gather_to_root(Communicator& comm, Channel channel,
                                      std::span<const std::byte> mine);

}  // namespace heliograph
