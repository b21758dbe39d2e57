#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.hpp"
#include "core/buffer.hpp"
#include "core/phase_clock.hpp"
#include "graph/shard.hpp"
#include "heliograph/traffic.hpp"
#include "quant/codec.hpp"

namespace heliograph {

/// Moves the halo rows of one (layer, direction): one message a peer, encoded in one pass from
/// the source rows, `slots` of them in flight at most. All buffers are sized when it is made.
/// Used by the rank's own thread.
class HaloExchange {
 public:
  /// Names the pass in messages and keys its rounding noise.
  struct Identity {
    int layer;
    Direction direction;
    std::uint64_t seed;
  };

  /// References must outlive the exchange. `global_ids`: by inner row. `room`: where its buffers
  /// are counted.
  HaloExchange(Communicator& comm, Channel channel, const HaloPlan& plan, const Codec& codec,
               std::int64_t cols, int slots, Identity identity,
               const std::vector<std::int64_t>& global_ids, MemoryRoom room,
               MemoryAccount* account);
  /// Aborts the communicator if messages are in flight (an exception is passing): their buffers
  /// must not be freed under a transport that still uses them.
  ~HaloExchange();
  HaloExchange(const HaloExchange&) = delete;
  HaloExchange& operator=(const HaloExchange&) = delete;

  /// Encodes the boundary rows and posts them into `slot`, after that slot's earlier message is
  /// done. Throws Error: numeric (names layer, node and epoch), peer_lost.
  void start(int slot, std::int64_t epoch, ConstMatrixView rows, const float* row_scale,
             ThreadPool& threads, PhaseClock& clock);

  /// Waits for the slot's message; the rows stay valid until the slot is started again.
  PackedRows finish(int slot, PhaseClock& clock);

  /// Waits for every slot.
  void drain();

  /// Bytes that `start` has posted so far.
  std::int64_t bytes_sent() const { return starts_ * bytes_per_start_; }
  /// The same rows at 4 bytes a value, no parameters.
  std::int64_t fp32_bytes_sent() const { return starts_ * plan_.send_rows() * cols_ * 4; }
  /// Both, by receiving rank, appended to `traffic`.
  void append_traffic(std::vector<LinkTraffic>& traffic) const;

 private:
  struct Slot {
    Buffer send, receive;
    std::vector<SendMessage> sends;
    std::vector<RecvMessage> receives;
    Ticket ticket;
    bool in_flight = false;
  };

  void wait(Slot& slot);
  [[noreturn]] void refuse(const UnencodableRow& row, std::int64_t epoch) const;

  Communicator& comm_;
  Channel channel_;
  const HaloPlan& plan_;
  const Codec& codec_;
  std::int64_t cols_;
  Identity identity_;
  const std::vector<std::int64_t>& global_ids_;
  std::vector<Slot> slots_;
  std::int64_t bytes_per_start_ = 0;
  std::int64_t starts_ = 0;
};

}  // namespace heliograph
