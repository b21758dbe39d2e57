#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/placed.hpp"
#include "graph/shard.hpp"

namespace heliograph {

/// The order in which a rank makes the messages of a halo plan, and the rows of each message that
/// it can copy from an earlier one instead of encoding them again. The bytes are the same, since
/// rounding noise depends on the node and not on the receiver. Each rank begins with the next
/// higher rank, so that the ranks do not all send to the same one first.
class SendSchedule {
 public:
  /// A run of `rows` rows, from row `to` of this message on, that are the same as the rows of the
  /// earlier message from row `from` on.
  struct Run {
    std::int32_t from;
    std::int32_t to;
    std::int32_t rows;
  };
  struct Copies {
    std::size_t message;  ///< Index of the earlier message.
    std::vector<Run> runs;
  };
  struct Message {
    int peer = 0;
    int piece = 0;
    std::span<const std::int32_t> send_rows;  ///< A part of the peer's list in the plan.
    std::int64_t first_row = 0;  ///< Where the message begins in the send buffer, in rows.
    bool encodes_all = true;
    /// If not all rows are encoded: the source rows to encode, their places in the message, and the
    /// runs to copy into the other places.
    std::vector<std::int32_t> new_rows, new_positions;
    std::vector<Copies> copies;

    std::int64_t rows() const { return static_cast<std::int64_t>(send_rows.size()); }
    /// The source rows to encode, in ascending order.
    std::span<const std::int32_t> fresh_rows() const {
      return encodes_all ? send_rows : std::span<const std::int32_t>(new_rows);
    }
  };

  /// The plan must outlive the schedule. Without `share_rows`, every message encodes all its rows.
  /// The rows for a peer travel in up to `pieces` messages.
  SendSchedule(const HaloPlan& plan, int rank, int ranks, bool share_rows, int pieces = 1);

  /// Where the message `piece` of `pieces` begins in the `rows` rows for a peer.
  static std::int64_t piece_begin(std::int64_t rows, int piece, int pieces) {
    return rows * piece / pieces;
  }
  int pieces() const { return pieces_; }

  /// The messages that hold rows, in the order in which they are sent: by peer, then by piece. So
  /// where a row lies in the send buffer, which checkpoints hold, does not depend on the pieces.
  const std::vector<Message>& messages() const { return messages_; }
  /// The number of rows of all messages together.
  std::int64_t rows() const { return rows_; }
  /// The bytes of memory that the lists of the schedule take.
  std::int64_t bytes() const;

  /// Copies the source rows of all messages, one after the other, to the device, if kernels do not
  /// read the host's memory. Only for schedules that share no rows.
  void place(Device& device, MemoryUse use, MemoryAccount* account);
  /// The `rows()` source rows that `place` has copied.
  std::span<const std::int32_t> placed_rows() const {
    return {placed_rows_.data(), static_cast<std::size_t>(rows_)};
  }
  /// Makes the list that `distinct_rows` returns, unless it is there, and places it on the device.
  void list_distinct_rows(Device& device, MemoryUse use, MemoryAccount* account);
  /// The source row of each of the `rows()` rows, or -1 where an earlier row has the same source.
  const std::int32_t* distinct_rows() const { return placed_distinct_.data(); }

 private:
  void share(const HaloPlan& plan);

  std::vector<Message> messages_;
  std::int64_t rows_ = 0;
  int pieces_;
  Placed<std::int32_t> placed_rows_;
  std::vector<std::int32_t> distinct_;
  Placed<std::int32_t> placed_distinct_;
};

}  // namespace heliograph
