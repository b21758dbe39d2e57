#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/halo_slot.hpp"
#include "comm/send_schedule.hpp"
#include "core/phase_clock.hpp"
#include "graph/placed_shard.hpp"
#include "heliograph/traffic.hpp"
#include "quant/codec.hpp"

namespace heliograph {

/// Moves the halo rows of one (layer, direction): one message a peer, which leaves as soon as its
/// rows are encoded. A row that several peers need is encoded once. Holds no buffers: they belong
/// to the slots that it is started in.
/// Used by the rank's own thread.
class HaloExchange {
 public:
  /// Names the pass in messages and keys its rounding noise.
  struct Identity {
    int layer;
    Direction direction;
    std::uint64_t seed;
  };

  /// References must outlive the exchange. `schedule` is of the shard's plan in this direction, and
  /// placed and without shared rows where kernels do not run on the host.
  HaloExchange(Communicator& comm, Channel channel, const PlacedShard& shard,
               const SendSchedule& schedule, const Codec& codec, std::int64_t cols,
               Identity identity);

  /// Bytes of what it sends, and of what it receives.
  std::size_t send_bytes() const { return codec_.encoded_bytes(schedule_.rows(), cols_); }
  std::size_t receive_bytes() const { return codec_.encoded_bytes(plan_.halo_rows, cols_); }

  /// Posts what it will receive, then encodes and posts one peer's boundary rows after the other,
  /// once what the slot held before is done. On a device all rows are encoded in one go, once the
  /// kernels that were asked for before are done.
  /// Throws Error: numeric (names layer, node and epoch), peer_lost.
  void start(HaloSlot& slot, std::int64_t epoch, ConstMatrixView rows, const float* row_scale,
             PhaseClock& clock);

  /// Waits for the rows that were started in `slot`, valid until anything is started there again;
  /// what was sent may still be under way. Throws Error: usage (another exchange has taken the
  /// slot since), peer_lost.
  PackedRows finish(HaloSlot& slot, PhaseClock& clock);

  /// The rows that were received in `slot`, whose receives have been waited for, as they came.
  std::span<const std::byte> received(const HaloSlot& slot) const {
    return {slot.received(), receive_bytes()};
  }
  /// Place in `slot` for rows as `received` gave them: once filled, `finish` takes them for its
  /// own.
  std::span<std::byte> adopt(HaloSlot& slot) const;

  /// How often it was started; set to go on from what an earlier run has counted.
  std::int64_t starts() const { return starts_; }
  void set_starts(std::int64_t starts) { starts_ = starts; }

  /// Bytes that `start` has posted so far.
  std::int64_t bytes_sent() const { return starts_ * bytes_per_start_; }
  /// The same rows at 4 bytes a value, no parameters.
  std::int64_t fp32_bytes_sent() const { return starts_ * schedule_.rows() * cols_ * 4; }
  /// Both, by receiving rank, appended to `traffic`.
  void append_traffic(std::vector<LinkTraffic>& traffic) const;

 private:
  void post_receives(HaloSlot& slot);
  UnencodableRow encode(const SendSchedule::Message& message, ConstMatrixView rows,
                        const float* row_scale, std::uint64_t stream, std::byte* buffer,
                        ThreadPool& threads) const;
  UnencodableRow encode_all(ConstMatrixView rows, const float* row_scale, std::uint64_t stream,
                            std::byte* buffer, ThreadPool& threads) const;
  [[noreturn]] void refuse(const UnencodableRow& row, std::int64_t epoch) const;

  Communicator& comm_;
  Channel channel_;
  const PlacedShard& shard_;
  const HaloPlan& plan_;
  const SendSchedule& schedule_;
  const Codec& codec_;
  std::int64_t cols_;
  std::size_t row_bytes_;
  Identity identity_;
  std::vector<RecvMessage> receives_;
  std::int64_t bytes_per_start_ = 0;
  std::int64_t starts_ = 0;
};

}  // namespace heliograph
