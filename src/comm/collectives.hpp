#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "core/buffer.hpp"

namespace heliograph {

/// Collectives over point-to-point messages: the same bits, run after run, at the same K.
/// Every rank calls in the same order with the same sizes.

/// Sums over ranks, element by element, in rank order: reduce-scatter, then all-gather.
/// Each rank sends 2 (K - 1) / K of the bytes. Scratch space is kept by the object, sized on the
/// first call, so that later calls of at most that size allocate nothing.
class AllReduce {
 public:
  /// `account` (may be null) counts the scratch space and must outlive the object.
  AllReduce(Communicator& comm, Channel channel, MemoryAccount* account = nullptr)
      : comm_(comm), channel_(channel), account_(account) {}

  void sum(std::span<float> values) { reduce(values); }
  void sum(std::span<double> values) { reduce(values); }
  void sum(std::span<std::int64_t> values) { reduce(values); }

 private:
  template <class T>
  void reduce(std::span<T> values);

  Communicator& comm_;
  Channel channel_;
  MemoryAccount* account_;
  Buffer scratch_;
  std::vector<SendMessage> sends_;
  std::vector<RecvMessage> receives_;
};

/// Returns when every rank has called it.
void barrier(Communicator& comm, Channel channel);

/// Rank 0 receives the concatenation, in rank order, of what the ranks hold; others get nothing.
std::vector<std::byte> gather_to_root(Communicator& comm, Channel channel,
                                      std::span<const std::byte> mine);

}  // namespace heliograph
