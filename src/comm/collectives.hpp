#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "comm/communicator.hpp"
#include "core/buffer.hpp"
#include "core/kernels.hpp"

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
  /// Makes this rank's block of the results of a sum. `sum` counts those begun since `finish`.
  /// Called on the rank's thread.
  using MakeResults = std::function<void(std::size_t sum)>;

  /// `account` (may be null) counts the scratch space and must outlive the object. `make` is for
  /// sums that begin with results. With `kernels`, values are fp32 and lie, like results and
  /// scratch, in the memory of their device, which the transport moves on `channel`. `finish` then
  /// returns when the device was asked for all that is left to do.
  AllReduce(Communicator& comm, Channel channel, MemoryAccount* account = nullptr,
            MakeResults make = {}, Kernels* kernels = nullptr);
  /// Aborts the run if sums are under way, for example when an exception passes.
  ~AllReduce();
  AllReduce(const AllReduce&) = delete;
  AllReduce& operator=(const AllReduce&) = delete;

  /// Makes room for the first sum, of `count` fp32 values, so that it allocates nothing.
  void reserve(std::size_t count);

  /// The positions [first, second) of the block that `rank` sums, of an array of `count` values.
  static std::pair<std::size_t, std::size_t> block(std::size_t count, int rank, int ranks);

  /// Starts to sum `values`, which must not be touched until `finish` returns. Does not wait, but
  /// continues earlier sums whose messages have arrived. Throws what Communicator::post throws.
  void begin(std::span<float> values) { start(values, values); }
  void begin(std::span<double> values) { start(values, values); }
  void begin(std::span<std::int64_t> values) { start(values, values); }

  /// Likewise, but sums only this rank's block of `values`. `make` then makes the same block of
  /// `results`, of the size of `values`, and the results of all ranks are gathered instead of sums.
  /// A single rank gathers nothing, so its results may be empty. Until `release`, `finish`
  /// or `begin` without results is called, `results` stay unchanged.
  void begin(std::span<float> values, std::span<float> results) { start(values, results); }
  void begin(std::span<double> values, std::span<float> results) { start(values, results); }

  /// Lets results of all sums begun so far be made and gathered. Throws as `begin` does.
  void release();

  /// Waits until this rank's blocks of all sums that began are summed. Throws what
  /// Communicator::wait throws.
  void finish_sums();

  /// Waits until all sums that began are done and all results gathered. Throws what
  /// Communicator::wait throws.
  void finish();

  template <class T>
  void sum(std::span<T> values) {
    begin(values);
    finish();
  }

 private:
  using SumBlocks = void (*)(std::byte* mine, const std::byte* others, std::size_t bytes,
                             std::size_t stride, int rank, int ranks);

  /// An array of `count` elements, of which each rank has a block.
  struct Array {
    std::byte* data = nullptr;
    std::size_t count = 0;
    std::size_t element_bytes = 0;
    std::span<std::byte> block(int rank, int ranks) const;
  };

  struct Sum {
    Array values, results;
    bool makes = false;              ///< Whether the results are not the sums themselves.
    std::size_t gathers_before = 0;  ///< How many gathers are posted before this scatter.
    SumBlocks add = nullptr;
    bool added = false;
    Ticket ticket;   ///< The ticket of the scatter, later that of the gather.
    Buffer scratch;  ///< The other ranks' values of this rank's block.
  };

  template <class T, class R>
  void start(std::span<T> values, std::span<R> results);
  bool advance(bool last);
  std::size_t make_room(Sum& sum, std::size_t block_bytes);
  void scatter(Sum& sum);
  void add(Sum& sum);
  void gather(Sum& sum);
  Ticket post();
  void wait(Ticket ticket);

  Communicator& comm_;
  Channel channel_;
  MemoryAccount* account_;
  MakeResults make_;
  Kernels* kernels_;       ///< Null if values lie in the host's memory.
  bool in_order_;          ///< Whether the device orders messages and its work.
  std::vector<Sum> sums_;  ///< Never shrinks, so that scratch space is kept.
  std::size_t begun_ = 0, scattered_ = 0, released_ = 0, gathered_ = 0;
  std::vector<SendMessage> sends_;
  std::vector<RecvMessage> receives_;
};

/// Returns when every rank has called it.
void barrier(Communicator& comm, Channel channel);

/// Returns the concatenation of all ranks' bytes, in rank order, on rank 0, and nothing on others.
std::vector<std::byte> gather_to_root(Communicator& comm, Channel channel,
                                      std::span<const std::byte> mine);

}  // namespace heliograph
